"""What a head's configuration implies, without torch: settings, sequences and weight shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tertium.errors import TertiumError

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "FEATURES",
    "HEAD_KINDS",
    "HeadKind",
    "HeadLayout",
    "ModelShape",
    "check_features",
    "complete",
    "layout_of",
    "weight_shapes",
]

Config = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]

# The features of a siamese head, for numpy and torch alike.
FEATURES: dict[str, Callable[[Any, Any], Any]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "|u-v|": lambda u, v: abs(u - v),
}


@dataclass(frozen=True)
class ModelShape:
    """What a head needs to know about the model.

    Attributes:
        dimension: width of a token's state.
        embedding: width of a sentence vector.
        heads: attention heads per layer.
        depth: number of layers.
        activation: its name in the model's configuration.
    """

    dimension: int
    embedding: int
    heads: int
    depth: int
    activation: str = "gelu"

    def activate(self) -> nn.Module:
        """A new module with the model's activation."""
        from transformers.activations import ACT2FN

        module: nn.Module = ACT2FN[self.activation]
        return module


@dataclass(frozen=True)
class HeadLayout:
    """How a conditional head reads a triple.

    Attributes:
        sequences: which texts each sequence has: 0 and 1 are the sentences, 2 is the condition.
        attention_layers: layers whose attention it uses.
        width: the fixed length it reads, or None for any.
        as_pair: two texts are joined as the tokenizer joins a pair, the second with a token type of
            its own if the tokenizer gives it one.
    """

    sequences: tuple[tuple[int, ...], ...]
    attention_layers: tuple[int, ...] = ()
    width: int | None = None
    as_pair: bool = False

    @property
    def together(self) -> bool:
        """Whether a sentence and the condition share a sequence."""
        return any(2 in texts and len(texts) > 1 for texts in self.sequences)


_REGRESSOR = {"length": 128, "dropout": 0.1}
_SEAVER = {
    "alpha": 1.0,
    "temperature": 1.0,
    "layers": "last",
    "gradient": "states",
    "regressor": "mean",
    **_REGRESSOR,
}

# Settings that are one of a few words.
_CHOICES: dict[str, tuple[str, ...]] = {
    "pooling": ("encoder", "sentence", "condition_tokens", "condition"),
    "projection": ("none", "hyper"),
    "combine": ("hadamard", "concat"),
    "scale": ("plain", "learned"),
    "regressor": ("cls", "mean", "flatten"),
    "layers": ("last", "mix"),
    "gradient": ("states", "states_and_weights"),
    "dense_activation": ("tanh", "relu", "gelu"),
}


def complete(config: Config) -> dict[str, Any]:
    """A saved configuration with every setting of its kind, under current names."""
    kind = str(config["kind"])
    defaults = HEAD_KINDS[kind].defaults
    settings = {**defaults, **config}
    if settings.get("pooling") == "asked":  # its name in version 0.1
        settings["pooling"] = "condition_tokens"
    for name, value in settings.items():
        if name not in defaults and name != "kind":
            raise TertiumError(f"The head {kind} has no setting {name}.")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise TertiumError(f"{name} must be one of {', '.join(_CHOICES[name])}, got {value}.")
    check_features(settings.get("features", FEATURES))
    return settings


def check_features(features: Collection[str]) -> None:
    """Raise unless these are features of a siamese head."""
    if not features or any(name not in FEATURES for name in features):
        raise TertiumError(f"features must be among {', '.join(FEATURES)}, got {features}.")


def _bi(config: Config, depth: int) -> HeadLayout:
    both = ((0, 2), (1, 2))
    alone = config["projection"] == "hyper" or config["subtract"] != 0
    attention = (-1,) if config["pooling"] == "condition" else ()
    return HeadLayout((*both, (2,)) if alone else both, attention)


def _tri(config: Config, depth: int) -> HeadLayout:
    return HeadLayout(((0,), (1,), (2,)))


def _cross(config: Config, depth: int) -> HeadLayout:
    width = config["length"] if config["regressor"] == "flatten" else None
    return HeadLayout(((0, 1, 2),), width=width)


def _seaver(config: Config, depth: int) -> HeadLayout:
    layers = tuple(range(depth)) if config["layers"] == "mix" else (-1,)
    read = _cross(config, depth)
    return HeadLayout(read.sequences, layers, read.width)


def _linear(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _siamese_weights(config: Config, shape: ModelShape) -> Shapes:
    return _linear("dense", config["outputs"], len(config["features"]) * shape.embedding)


def _line(config: Config) -> Shapes:
    return {"slope": (), "offset": ()} if config.get("scale", "learned") == "learned" else {}


def _bi_weights(config: Config, shape: ModelShape) -> Shapes:
    found = _line(config) | ({"subtract": ()} if config["subtract"] == "learned" else {})
    if config["projection"] == "hyper":
        width = shape.embedding if config["pooling"] == "encoder" else shape.dimension
        rank = config["rank"]
        found |= {"hyper.down.weight": (rank, width), "hyper.up.weight": (width, rank)}
        found |= _linear("hyper.gate", rank, width)
    return found


def _tri_weights(config: Config, shape: ModelShape) -> Shapes:
    width = shape.embedding
    both = _linear("concat.1", width, 2 * width) if config["combine"] == "concat" else {}
    return _line(config) | _linear("condition.1", width, width) | both


def _cross_weights(config: Config, shape: ModelShape) -> Shapes:
    places = config["length"] if config["regressor"] == "flatten" else 1
    return _linear("regressor.transform", shape.dimension, shape.dimension) | _linear(
        "regressor.classifier", 1, places * shape.dimension
    )


def _classifier_weights(config: Config, shape: ModelShape) -> Shapes:
    return _linear("dense", shape.dimension, shape.dimension) | _linear("out", 1, shape.dimension)


def _seaver_weights(config: Config, shape: ModelShape) -> Shapes:
    found = _cross_weights(config, shape)
    found |= _linear("augmentation.compressor", shape.dimension, shape.heads * shape.dimension)
    learned = {"alpha": "alpha", "temperature": "log_temperature"}
    found |= {f"augmentation.{w}": () for s, w in learned.items() if config[s] == "learned"}
    return found | ({"mix": (shape.depth,)} if config["layers"] == "mix" else {})


@dataclass(frozen=True)
class HeadKind:
    """A kind of head, as far as it is known without torch.

    Attributes:
        defaults: defaults of its settings, for those that were added after a model was saved.
        weights: returns names and shapes of its weights, from its complete configuration.
        layout: returns how it reads a triple, from its complete configuration and the number of
            layers of the model; None for a head that compares two embeddings.
    """

    defaults: dict[str, Any]
    weights: Callable[[Config, ModelShape], Shapes]
    layout: Callable[[Config, int], HeadLayout] | None = None


_SEAVER_KIND = HeadKind(_SEAVER, _seaver_weights, _seaver)
# By name. A head that is not listed runs only on torch, and overrides ``layout``.
HEAD_KINDS: dict[str, HeadKind] = {
    "siamese": HeadKind({"features": tuple(FEATURES), "outputs": 1}, _siamese_weights),
    "cosine": HeadKind({}, lambda config, shape: _line(config)),
    "cross": HeadKind({"regressor": "cls", **_REGRESSOR}, _cross_weights, _cross),
    "classifier": HeadKind(
        {"dense_activation": "tanh", "dropout": 0.1},
        _classifier_weights,
        lambda config, depth: HeadLayout(((0, 1),), as_pair=True),
    ),
    "seaver": _SEAVER_KIND,
    "rand_aug": _SEAVER_KIND,
    "bi": HeadKind(
        {"pooling": "encoder", "subtract": 0.0, "projection": "none", "rank": 64, "scale": "plain"},
        _bi_weights,
        _bi,
    ),
    "tri": HeadKind({"combine": "hadamard", "dropout": 0.1, "scale": "plain"}, _tri_weights, _tri),
}


def layout_of(config: Config, *, depth: int) -> HeadLayout:
    """The layout of a head with this complete configuration, on a model of ``depth`` layers."""
    layout = HEAD_KINDS[config["kind"]].layout
    if layout is None:
        raise TertiumError(f"The head {config['kind']} compares embeddings and reads no triples.")
    return layout(config, depth)


def weight_shapes(config: Config, shape: ModelShape) -> Shapes:
    """Names and shapes of the weights of a head with this complete configuration."""
    return HEAD_KINDS[config["kind"]].weights(config, shape)
