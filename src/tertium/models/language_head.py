"""The language-model head of a backbone: its own where the checkpoint has one, else a fresh one."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import AutoModelForMaskedLM, PreTrainedModel

from tertium.errors import TertiumError
from tertium.models.encoder import Encoder
from tertium.models.quiet import quiet
from tertium.models.weights import read_options

__all__ = ["LanguageHead", "language_head"]


class LanguageHead(nn.Module):
    """Hidden states to vocabulary scores, through the backbone's own input embeddings.

    The embeddings are used, not owned: they are saved with the backbone, once.
    """

    def __init__(self, transform: nn.Module, bias: nn.Parameter, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.transform = transform
        self.bias = bias
        self._backbone = (backbone,)  # in a tuple, so that it is no submodule

    def forward(self, tokens: Float[Tensor, "m d"]) -> Float[Tensor, "m v"]:
        """A score for every entry of the vocabulary."""
        embeddings = cast(nn.Embedding, self._backbone[0].get_input_embeddings())
        return linear(self.transform(tokens), embeddings.weight, self.bias)


def language_head(encoder: Encoder, *, seed: int) -> LanguageHead:
    """The head of ``encoder``'s checkpoint; one that it does not hold is fresh, by ``seed``."""
    factory: Any = AutoModelForMaskedLM
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            whole = factory.from_config(encoder.backbone.config)
            if encoder.source is not None:
                loaded, loading = factory.from_pretrained(
                    encoder.source, output_loading_info=True, **read_options(encoder.source)
                )
                if not any("predictions" in k or "lm_head" in k for k in loading["missing_keys"]):
                    whole = loaded
        except ValueError as error:
            raise TertiumError(
                f"{type(encoder.backbone).__name__} has no language-model head in transformers; "
                "leave masked_lm out."
            ) from error
    return _assemble(whole, encoder.backbone).to(encoder.device)


def _assemble(whole: PreTrainedModel, backbone: PreTrainedModel) -> LanguageHead:
    """BERT's and RoBERTa's heads, without the matrix that is the input embeddings."""
    predictions = getattr(getattr(whole, "cls", None), "predictions", None)
    if predictions is not None:
        return LanguageHead(predictions.transform, predictions.bias, backbone)
    head = getattr(whole, "lm_head", None)
    if head is not None and hasattr(head, "layer_norm"):
        return LanguageHead(
            nn.Sequential(head.dense, nn.GELU(), head.layer_norm), head.bias, backbone
        )
    raise TertiumError(
        f"The language-model head of {type(backbone).__name__} is not known here: masked_lm works "
        "with BERT- and RoBERTa-like models."
    )
