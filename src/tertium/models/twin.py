"""JTCSE's two towers in one model that transformers can load, and their cross attention."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from tertium.errors import TertiumError
from tertium.types import Branch

__all__ = [
    "TwinConfig",
    "TwinModel",
    "cross_branches",
    "cross_layer",
    "cross_layers",
    "encoder_layers",
    "twin_of",
]

# Entries that other code reads from a backbone's configuration; equal in both towers.
_SHARED = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
)


class TwinConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """The configurations of both towers."""

    model_type = "tertium-twin"

    def __init__(
        self,
        first: dict[str, Any] | None = None,
        second: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.first = first or {}
        self.second = second or {}
        for name in _SHARED:
            setattr(self, name, self.first.get(name))
        options.setdefault("pad_token_id", self.first.get("pad_token_id"))
        super().__init__(**options)

    def tower(self, values: dict[str, Any]) -> PretrainedConfig:
        """One tower's configuration."""
        options = {name: value for name, value in values.items() if name != "model_type"}
        return AutoConfig.for_model(values["model_type"], **options)


class TwinModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Two backbones side by side; a token's state is the sum of both towers' states.

    The CLS vector of the sum is the sum of the CLS vectors, which is JTCSE's embedding, so stock
    CLS pooling can follow this model.
    """

    config_class = TwinConfig
    base_model_prefix = "twin"
    _supports_sdpa = True

    def __init__(self, config: TwinConfig) -> None:
        super().__init__(config)
        factory: Any = AutoModel
        self.first = factory.from_config(config.tower(config.first))
        self.second = factory.from_config(config.tower(config.second))
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> Any:
        """Those of the first tower."""
        return self.first.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> BaseModelOutput:
        """The sum of both towers' hidden states, without cross attention."""
        one, two = (
            tower(
                input_ids=input_ids,
                attention_mask=attention_mask,
                output_hidden_states=self.config.output_hidden_states,
            )
            for tower in (self.first, self.second)
        )
        states = None
        if self.config.output_hidden_states:
            states = tuple(a + b for a, b in zip(one.hidden_states, two.hidden_states, strict=True))
        return BaseModelOutput(
            last_hidden_state=one.last_hidden_state + two.last_hidden_state, hidden_states=states
        )

    def _init_weights(self, module: Any) -> None:
        """The towers initialise themselves."""


def twin_of(first: PreTrainedModel, second: PreTrainedModel) -> TwinModel:
    """A twin with the weights of two backbones of the same shape and vocabulary."""
    for name in _SHARED:
        one, two = getattr(first.config, name), getattr(second.config, name)
        if one != two:
            raise TertiumError(f"Two towers need the same {name}: {one} and {two}.")
    config = TwinConfig(first=first.config.to_dict(), second=second.config.to_dict())
    twin = TwinModel(config)
    twin.first.load_state_dict(first.state_dict())
    twin.second.load_state_dict(second.state_dict())
    twin.train(mode=False)
    return twin


AutoConfig.register(TwinConfig.model_type, TwinConfig)
AutoModel.register(TwinConfig, TwinModel)


def cross_layers(depth: int, count: int) -> range:
    """Layers with cross attention, counted from 1: the multiples of ``depth / count``.

    JTCSE, Eq. 7; ``count`` must divide the depth, and 0 means none.
    """
    if count < 0 or (count and depth % count):
        fitting = [n for n in range(1, depth + 1) if depth % n == 0]
        raise TertiumError(
            f"{count} cross-attention layers do not fit {depth} layers; choose 0 or one of "
            f"{', '.join(map(str, fitting))}."
        )
    step = depth // count if count else depth + 1
    return range(step, depth + 1, step)


def cross_branches(
    first: PreTrainedModel,
    second: PreTrainedModel,
    states: tuple[Sequence[Tensor], Sequence[Tensor]],
    mask: Int[Tensor, "n t"],
    *,
    layers: Sequence[int],
    branch: Branch = "stream",
    cls_only: bool = False,
) -> tuple[Float[Tensor, "n rows d"], Float[Tensor, "n rows d"]]:
    """Both towers' branch outputs at the last cross-attention layer, apart from the main streams.

    Args:
        first: a BERT- or RoBERTa-like backbone.
        second: another one of the same shape.
        states: all hidden states of both main streams, the embedding output first.
        mask: 1 for real tokens.
        layers: layers with cross attention, counted from 1, ascending.
        branch: ``side`` starts each such layer from the main streams, so that only the last one
            matters; ``stream`` passes the branch through the ordinary layers to the next one.
        cls_only: compute the last layer only for the first token, the only row that JTCSE uses.
    """
    own, other = encoder_layers(first), encoder_layers(second)
    if len(own) != len(other) or first.config.hidden_size != second.config.hidden_size:
        raise TertiumError(
            "Two towers need the same depth and width: "
            f"{len(own)} and {len(other)} layers of {first.config.hidden_size} and "
            f"{second.config.hidden_size}."
        )
    allowed = mask.bool()[:, None, None, :]
    start = (layers[-1] if branch == "side" else layers[0]) - 1
    one, two = states[0][start], states[1][start]
    for layer in range(start, layers[-1]):
        rows = 1 if cls_only and layer + 1 == layers[-1] else None
        if layer + 1 in layers:
            one, two = (
                cross_layer(own[layer], other[layer], one, two, allowed, rows=rows),
                cross_layer(other[layer], own[layer], two, one, allowed, rows=rows),
            )
        else:
            one = cross_layer(own[layer], own[layer], one, one, allowed)
            two = cross_layer(other[layer], other[layer], two, two, allowed)
    return one, two


def cross_layer(
    own: Any,
    other: Any,
    states: Float[Tensor, "n t d"],
    other_states: Float[Tensor, "n t d"],
    allowed: Tensor,
    *,
    rows: int | None = None,
) -> Float[Tensor, "n rows d"]:
    """One encoder layer whose values come from another layer: JTCSE, Eq. 8 to 10.

    If ``other`` is the layer itself, with its own states, this is the ordinary layer. There are no
    new weights.

    Args:
        own: the layer whose queries, keys, projections and feed-forward part are used.
        other: the layer that computes the values.
        states: input of ``own``.
        other_states: input of ``other``.
        allowed: which keys may be attended to, broadcast over heads and queries.
        rows: compute only this many first tokens; None for all.
    """
    attention = own.attention.self
    heads = attention.num_attention_heads

    def split(tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:2], heads, -1).transpose(1, 2)

    asked = states[:, :rows]
    context = scaled_dot_product_attention(
        split(attention.query(asked)),
        split(attention.key(states)),
        split(other.attention.self.value(other_states)),
        attn_mask=allowed,
        dropout_p=attention.dropout.p if own.training else 0.0,
    )
    joined = context.transpose(1, 2).reshape(asked.shape)
    attended = own.attention.output(joined, asked)
    output: Tensor = own.output(own.intermediate(attended), attended)
    return output


def encoder_layers(backbone: PreTrainedModel) -> Any:
    """The layers of a BERT- or RoBERTa-like backbone; raises for any other."""
    layers = getattr(getattr(backbone, "encoder", None), "layer", None)
    parts = ("attention", "intermediate", "output")
    if layers is None or not all(hasattr(layers[0], part) for part in parts):
        raise TertiumError(
            f"{type(backbone).__name__} has no layers like BERT's: use a BERT- or RoBERTa-like "
            "backbone."
        )
    return layers
