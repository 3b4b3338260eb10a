"""A linear layer behind the pooling, saved with the model."""

from sentence_transformers.base.modules import Dense
from torch import nn

from tertium.errors import TertiumError
from tertium.models.encoder import Encoder

__all__ = ["append_linear"]


def append_linear(encoder: Encoder, linear: nn.Linear) -> None:
    """Let ``encoder`` end with ``linear``, as a stock sentence-transformers module, in place."""
    if encoder.normalizes:
        raise TertiumError(
            f"{encoder.name} ends with vectors of length 1, and a layer behind that would undo it. "
            "Set encoder.normalize to false."
        )
    dense = Dense(
        linear.in_features,
        linear.out_features,
        activation_function=nn.Identity(),
        init_weight=linear.weight.detach(),
        init_bias=linear.bias.detach(),
    )
    encoder.model.append(dense.to(encoder.device))
