"""From two encoders to a twin, and back."""

import copy

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from transformers import PreTrainedModel

from tertium.errors import TertiumError
from tertium.models.encoder import Encoder
from tertium.models.twin import TwinModel, twin_of

__all__ = ["join_towers", "tower_encoders"]


def join_towers(first: Encoder, second: Encoder) -> Encoder:
    """One encoder whose embedding is the sum of two encoders' embeddings: JTCSE's twin.

    Both must read the same tokens and pool alike. The weights are copied; tokenizer, pooling and
    length are those of the first.

    Args:
        first: tower I.
        second: tower II.
    """
    if first.tokenizer.get_vocab() != second.tokenizer.get_vocab():
        raise TertiumError(
            f"{first.name} and {second.name} have different vocabularies: two towers read the same "
            "tokens. tertium ensemble joins any two models."
        )
    if first.pooling != second.pooling or first.pooling is None:
        raise TertiumError(f"Two towers pool alike: {first.pooling} and {second.pooling}.")
    if first.normalizes or second.normalizes:
        raise TertiumError(
            "Two towers are added up as they are, and vectors of length 1 are not: use "
            "encoder.with_pooling(pooling, normalize=False)."
        )
    twin = twin_of(first.backbone, second.backbone)
    return _with_backbone(first, twin, name=f"{first.name}+{second.name}")


def tower_encoders(encoder: Encoder) -> tuple[Encoder, Encoder]:
    """Both towers of a twin as plain encoders that share its weights."""
    twin = encoder.backbone
    if not isinstance(twin, TwinModel):
        raise TertiumError(f"{encoder.name} is not a twin: it has one tower.")
    return (
        _with_backbone(encoder, twin.first, name=f"{encoder.name}/first"),
        _with_backbone(encoder, twin.second, name=f"{encoder.name}/second"),
    )


def _with_backbone(encoder: Encoder, backbone: PreTrainedModel, *, name: str) -> Encoder:
    """A copy of everything but the backbone, around another one."""
    transformer = encoder.model[0]
    assert isinstance(transformer, Transformer)
    memo = {id(transformer.model): backbone}  # what deepcopy finds here it does not copy
    modules = copy.deepcopy(list(encoder.model), memo)
    model = SentenceTransformer(modules=modules, device=str(encoder.device))
    model.eval()
    return Encoder(
        model,
        name=name,
        pooling=encoder.pooling,
        source=encoder.source,
        training_data=encoder.training_data,
    )
