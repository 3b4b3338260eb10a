"""Conditional heads as parts of an ONNX graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tertium.models.graphs import Config, GraphBuilder, Weights

_PADDING = -1
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Side:
    """One sequence of every triple in a batch, as names of nodes.

    Attributes:
        vector: sentence vectors ``[n, d]``.
        tokens: last hidden states ``[n, t, d]``.
        mask: 1 for tokens, 0 for padding ``[n, t]``.
        segments: 0 for sentences, 1 for the condition, -1 for padding ``[n, t]``.
        attention: weights ``[n, h, t, t]`` of the layers that the head uses.
    """

    vector: str
    tokens: str
    mask: str
    segments: str
    attention: Sequence[str] = ()


def _bi(graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]) -> str:
    vectors = [_bi_vector(graph, config["pooling"], side) for side in sides]
    u, v = vectors[:2]
    if len(sides) > 2:
        blank = _blank(graph, sides[2])
        subtract = weights.get("subtract", config["subtract"])
        away = graph.node("Mul", vectors[2], graph.constant(np.float32(subtract)))

        def changed(x: str) -> str:
            y = x
            if config["projection"] == "hyper":
                gate = graph.linear(vectors[2], weights, "hyper.gate")
                down = graph.linear(x, weights, "hyper.down")
                y = graph.node(
                    "Add", x, graph.linear(graph.node("Mul", gate, down), weights, "hyper.up")
                )
            return graph.node("Where", blank, x, graph.node("Sub", y, away))

        u, v = changed(u), changed(v)
    return _line(graph, weights, graph.cosine(u, v))


def _bi_vector(graph: GraphBuilder, pooling: str, side: Side) -> str:
    if pooling == "encoder":
        return side.vector
    sentence = _float(graph, _equals(graph, side.segments, 0))
    condition = _float(graph, _equals(graph, side.segments, 1))
    if pooling == "condition":
        return _attending(graph, side, sentence, condition)
    inside = condition if pooling == "condition_tokens" else sentence
    some = graph.node("ReduceMax", inside, graph.constant([1]), keepdims=1)
    none = graph.node("Sub", graph.constant(np.float32(1)), some)
    # A single text, or one without a condition, is its own first segment.
    inside = graph.node("Max", inside, graph.node("Mul", none, sentence))
    return graph.masked_mean(side.tokens, inside)


def _attending(graph: GraphBuilder, side: Side, sentence: str, condition: str) -> str:
    """Mean of the sentence's tokens, weighted by their attention to the condition."""
    mean = graph.node("ReduceMean", side.attention[-1], graph.constant([1]), keepdims=0)
    column = graph.node("Unsqueeze", condition, graph.constant([2]))
    towards = graph.node("Squeeze", graph.node("MatMul", mean, column), graph.constant([2]))
    some = graph.node("ReduceMax", condition, graph.constant([1]), keepdims=1)
    some = graph.node("Cast", some, to=9)
    chosen = graph.node("Where", some, towards, graph.constant(np.float32(1)))
    chosen = graph.node("Mul", chosen, sentence)
    total = graph.node("ReduceSum", chosen, graph.constant([1]), keepdims=1)
    share = graph.node("Div", chosen, graph.node("Max", total, graph.constant(np.float32(1e-9))))
    row = graph.node("MatMul", graph.node("Unsqueeze", share, graph.constant([1])), side.tokens)
    return graph.node("Squeeze", row, graph.constant([1]))


def _tri(graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]) -> str:
    first, second, asked = sides
    condition, blank = graph.linear(asked.vector, weights, "condition.1"), _blank(graph, asked)

    def combined(x: str) -> str:
        if config["combine"] == "hadamard":
            y = graph.node("Mul", x, condition)
        else:
            both = graph.node("Concat", x, condition, axis=1)
            y = graph.activation(graph.linear(both, weights, "concat.1"), config["activation"])
        return graph.node("Where", blank, x, y)

    return _line(graph, weights, graph.cosine(combined(first.vector), combined(second.vector)))


def _cross(graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]) -> str:
    (side,) = sides
    return _regressed(graph, config, weights, side.tokens, side)


def _classifier(
    graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]
) -> str:
    (side,) = sides
    first = graph.node("Gather", side.tokens, graph.constant(np.int64(0)), axis=1)
    changed = graph.activation(graph.linear(first, weights, "dense"), config["dense_activation"])
    logit = graph.linear(changed, weights, "out")
    return graph.node("Squeeze", graph.node("Sigmoid", logit), graph.constant([1]))


def _seaver(graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]) -> str:
    (side,) = sides
    return _augmented(graph, config, weights, side, side.segments)


def _rand_aug(graph: GraphBuilder, config: Config, weights: Weights, sides: Sequence[Side]) -> str:
    (side,) = sides
    real = _float(graph, graph.node("Not", _equals(graph, side.segments, _PADDING)))
    count = graph.node("ReduceSum", real, graph.constant([1]), keepdims=1)
    wide = _float(graph, _equals(graph, side.segments, 1))
    wide = graph.node("ReduceSum", wide, graph.constant([1]), keepdims=1)
    number = graph.node("Add", graph.node("Mul", count, graph.constant(np.float32(31))), wide)
    place = graph.node(
        "Mul", graph.node("Cast", number, to=11), graph.constant(np.float64(_GOLDEN))
    )
    place = graph.node("Cast", graph.node("Sub", place, graph.node("Floor", place)), to=1)
    room = graph.node("Add", graph.node("Sub", count, wide), graph.constant(np.float32(1)))
    start = graph.node("Floor", graph.node("Mul", place, room))
    zero, one = graph.constant(np.float32(0)), graph.constant(np.float32(1))
    width = graph.node("Squeeze", graph.node("Shape", side.segments, start=1))
    places = graph.node("Range", zero, graph.node("Cast", width, to=1), one)
    inside = graph.node(
        "And",
        graph.node("GreaterOrEqual", places, start),
        graph.node("Less", places, graph.node("Add", start, wide)),
    )
    padding = graph.constant(np.int64(_PADDING))
    moved = graph.node(
        "Where", graph.node("Cast", real, to=9), graph.node("Cast", inside, to=7), padding
    )
    return _augmented(graph, config, weights, side, moved)


def attention_shown(graph: GraphBuilder, weights: Weights, attention: Sequence[str]) -> str:
    """The attention that a head uses: SEAVER's mix of layers, or else the last layer's."""
    if "mix" not in weights:
        return attention[-1]
    shares = np.exp(weights["mix"] - weights["mix"].max())
    shares /= shares.sum()
    parts = [
        graph.node("Mul", layer, graph.constant(np.float32(share)))
        for layer, share in zip(attention, shares, strict=True)
    ]
    return graph.node("Sum", *parts)


def temperature_of(config: Config, weights: Weights) -> float:
    """The temperature of SEAVER's reallocation, learned or fixed."""
    if config["temperature"] != "learned":
        return float(config["temperature"])
    return float(np.exp(weights["augmentation.log_temperature"]))


def _augmented(
    graph: GraphBuilder, config: Config, weights: Weights, side: Side, segments: str
) -> str:
    """States augmented by reallocated attention, then the regressor: SEAVER, Eq. 2 to 6."""
    attention = attention_shown(graph, weights, side.attention)
    real = graph.node("Not", _equals(graph, segments, _PADDING))
    row, column = (graph.node("Unsqueeze", segments, graph.constant([at])) for at in (1, 2))
    real_row, real_column = (graph.node("Unsqueeze", real, graph.constant([at])) for at in (1, 2))
    pairs = graph.node("And", real_row, real_column)
    same = graph.node("And", pairs, graph.node("Equal", row, column))
    other = graph.node("And", pairs, graph.node("Not", same))
    other = graph.node("Unsqueeze", _float(graph, other), graph.constant([1]))
    crossing = graph.node("Mul", attention, other)
    temperature = temperature_of(config, weights)
    products = graph.node("MatMul", crossing, crossing)
    products = graph.node("Div", products, graph.constant(np.float32(temperature)))
    identity = _identity(graph, segments)
    kept = graph.node("And", identity, graph.node("Not", real_column))
    allowed = graph.node("Unsqueeze", graph.node("Or", same, kept), graph.constant([1]))
    masked = graph.node("Where", allowed, products, graph.constant(np.float32(-np.inf)))
    reweighted = graph.node("Softmax", masked, axis=-1)
    tokens = graph.node("Unsqueeze", side.tokens, graph.constant([1]))
    heads = graph.node("Transpose", graph.node("MatMul", reweighted, tokens), perm=[0, 2, 1, 3])
    width = weights["augmentation.compressor.weight"].shape[1]
    flat = graph.node("Reshape", heads, graph.constant([0, 0, width]))
    alpha = weights.get("augmentation.alpha", config["alpha"])
    kept_states = graph.node("Mul", side.tokens, graph.constant(np.float32(alpha)))
    changed = graph.linear(flat, weights, "augmentation.compressor")
    return _regressed(graph, config, weights, graph.node("Add", changed, kept_states), side)


def _regressed(
    graph: GraphBuilder, config: Config, weights: Weights, states: str, side: Side
) -> str:
    """SEAVER's regressor: a linear map with activation, a pooling, and a linear map to a score."""
    pooling = config["regressor"]
    if pooling == "cls":
        states = graph.node("Gather", states, graph.constant(np.int64(0)), axis=1)
    changed = graph.linear(states, weights, "regressor.transform")
    changed = graph.activation(changed, config["activation"])
    if pooling == "flatten":
        changed = graph.node("Flatten", changed, axis=1)
    elif pooling == "mean":
        changed = graph.masked_mean(changed, graph.node("Cast", side.mask, to=1))
    score = graph.linear(changed, weights, "regressor.classifier")
    return graph.node("Squeeze", score, graph.constant([1]))


def _identity(graph: GraphBuilder, segments: str) -> str:
    width = graph.node("Squeeze", graph.node("Shape", segments, start=1))
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    places = graph.node("Range", zero, width, one)
    return graph.node("Equal", places, graph.node("Unsqueeze", places, graph.constant([1])))


def _line(graph: GraphBuilder, weights: Weights, cosine: str) -> str:
    if "slope" not in weights:
        return cosine
    scaled = graph.node("Mul", cosine, graph.constant(np.float32(weights["slope"])))
    return graph.node("Add", scaled, graph.constant(np.float32(weights["offset"])))


def _blank(graph: GraphBuilder, side: Side) -> str:
    """Rows with an empty text, ``[n, 1]``: only the first token and a separator."""
    count = graph.node("ReduceSum", side.mask, graph.constant([1]), keepdims=1)
    return graph.node("LessOrEqual", count, graph.constant(np.int64(2)))


def _equals(graph: GraphBuilder, x: str, value: int) -> str:
    return graph.node("Equal", x, graph.constant(np.int64(value)))


def _float(graph: GraphBuilder, x: str) -> str:
    return graph.node("Cast", x, to=1)


# By the kind that a head's configuration names.
HEAD_GRAPHS: dict[str, Callable[[GraphBuilder, Config, Weights, Sequence[Side]], str]] = {
    "bi": _bi,
    "classifier": _classifier,
    "cross": _cross,
    "rand_aug": _rand_aug,
    "seaver": _seaver,
    "tri": _tri,
}
