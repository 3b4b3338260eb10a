"""Changes to an encoder: fewer layers, another last layer, two towers, a language-model head."""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import AutoModelForMaskedLM, PreTrainedModel

from tertium.errors import TertiumError
from tertium.models.checkpoints import quiet, read_options
from tertium.models.encoder import Encoder
from tertium.models.twin import TwinModel, encoder_layers, twin_of

__all__ = [
    "LanguageHead",
    "append_linear",
    "join_towers",
    "keep_layers",
    "language_head",
    "spread",
    "tower_encoders",
]


def append_linear(encoder: Encoder, linear: nn.Linear) -> None:
    """Append ``linear`` to ``encoder`` in place, as a stock sentence-transformers module."""
    if encoder.normalizes:
        raise TertiumError(
            f"{encoder.name} normalizes its vectors, which a layer after that would undo. Set "
            "encoder.normalize to false."
        )
    dense = Dense(
        linear.in_features,
        linear.out_features,
        activation_function=nn.Identity(),
        init_weight=linear.weight.detach(),
        init_bias=linear.bias.detach(),
    )
    encoder.model.append(dense.to(encoder.device))


def spread(depth: int, count: int) -> tuple[int, ...]:
    """``count`` of ``depth`` layers, counted from 1, evenly spaced up to the last.

    >>> spread(12, 4), spread(6, 4)
    ((3, 6, 9, 12), (2, 3, 5, 6))
    """
    if not 1 <= count <= depth:
        raise TertiumError(f"{count} of {depth} layers cannot be kept: choose from 1 to {depth}.")
    return tuple(-(-at * depth // count) for at in range(1, count + 1))


def keep_layers(encoder: Encoder, layers: Sequence[int]) -> Encoder:
    """A copy of ``encoder`` with only these layers.

    Args:
        encoder: with a BERT- or RoBERTa-like backbone.
        layers: those to keep, counted from 1, ascending.
    """
    depth = len(encoder_layers(encoder.backbone))
    if (
        not layers
        or list(layers) != sorted(set(layers))
        or not 1 <= layers[0] <= layers[-1] <= depth
    ):
        raise TertiumError(
            f"layers {list(layers)} cannot be kept: name some from 1 to {depth}, in order."
        )
    short = encoder.copy()
    kept = [encoder_layers(short.backbone)[at - 1] for at in layers]
    for at, layer in enumerate(kept):
        layer.attention.self.layer_idx = at
    backbone: Any = short.backbone
    backbone.encoder.layer = nn.ModuleList(kept)
    backbone.config.num_hidden_layers = len(kept)
    return short


def join_towers(first: Encoder, second: Encoder) -> Encoder:
    """One encoder whose embedding is the sum of two encoders' embeddings: JTCSE's twin.

    Both must have the same vocabulary and pooling. The weights are copied; tokenizer, pooling and
    maximum length are those of the first.
    """
    if first.tokenizer.get_vocab() != second.tokenizer.get_vocab():
        raise TertiumError(
            f"{first.name} and {second.name} have different vocabularies, but two towers must read "
            "the same tokens. tertium ensemble joins any two models."
        )
    if first.pooling != second.pooling or first.pooling is None:
        raise TertiumError(
            f"Two towers must have the same pooling, not {first.pooling} and {second.pooling}."
        )
    if first.normalizes or second.normalizes:
        raise TertiumError(
            "The vectors of two towers are summed, so they must not be normalized: use "
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
    """A copy of the encoder with another backbone."""
    transformer = encoder.model[0]
    assert isinstance(transformer, Transformer)
    memo = {id(transformer.model): backbone}  # deepcopy takes this one instead of copying
    modules = copy.deepcopy(list(encoder.model), memo)
    model = SentenceTransformer(modules=modules, device=str(encoder.device))
    model.eval()
    return encoder.around(model, pooling=encoder.pooling, name=name)


class LanguageHead(nn.Module):
    """From hidden states to vocabulary scores, by the backbone's input embeddings.

    The embeddings are shared with the backbone, and saved only with it.
    """

    def __init__(self, transform: nn.Module, bias: nn.Parameter, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.transform = transform
        self.bias = bias
        self._backbone = (backbone,)  # in a tuple, so that it is not a submodule

    def forward(self, tokens: Float[Tensor, "m d"]) -> Float[Tensor, "m v"]:
        """A score for every entry of the vocabulary."""
        embeddings = cast(nn.Embedding, self._backbone[0].get_input_embeddings())
        return linear(self.transform(tokens), embeddings.weight, self.bias)


def language_head(encoder: Encoder, *, seed: int) -> LanguageHead:
    """The head in ``encoder``'s checkpoint or, if it has none, a new one from ``seed``."""
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
    """BERT's or RoBERTa's head without its output matrix, which is the input embeddings."""
    predictions = getattr(getattr(whole, "cls", None), "predictions", None)
    if predictions is not None:
        return LanguageHead(predictions.transform, predictions.bias, backbone)
    head = getattr(whole, "lm_head", None)
    if head is not None and hasattr(head, "layer_norm"):
        return LanguageHead(
            nn.Sequential(head.dense, nn.GELU(), head.layer_norm), head.bias, backbone
        )
    raise TertiumError(
        f"The language-model head of {type(backbone).__name__} is not supported: masked_lm works "
        "with BERT- and RoBERTa-like models."
    )
