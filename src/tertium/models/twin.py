"""Two towers in one model: JTCSE's encoder, as an architecture that transformers can load."""

from typing import Any

from torch import Tensor
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from tertium.errors import TertiumError

__all__ = ["TwinConfig", "TwinModel", "twin_of"]

# What others read from a backbone's configuration; both towers have the same.
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

    The CLS vector of the sum is the sum of the CLS vectors, which is JTCSE's embedding: CLS
    pooling after this model needs nothing of ours.
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
        """The sum of both towers' hidden states; cross attention is not run."""
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
