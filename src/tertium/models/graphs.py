"""Transformers as ONNX graphs, built from their configuration and weights without torch.

Token ids and a mask ``[n, t]`` go in; hidden states, attention and the sentence vector are nodes
that pooling and heads build on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError

Weights = Mapping[str, NDArray[Any]]
Config = Mapping[str, Any]

RESULT = "result"  # name of every graph's first output
TOKENS, ATTENTION = "tokens", "attention"  # names of others, which show what led to it
_SHOWN_AXES = {TOKENS: ("rows", "t", "d"), ATTENTION: ("rows", "h", "t", "t")}
_OPSET, _IR = 20, 10
_MASKED = np.float32(-3e38)


class NoGraphError(TertiumError):
    """A part of a model for which there is no graph."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has no graph of ours.")


class GraphBuilder:
    """Nodes and constants of a graph that is being written.

    Attributes:
        ids: the node or input that holds token ids ``[n, t]``.
        mask: likewise 1 for tokens and 0 for padding.
        types: likewise token types, if they are not all 0.
    """

    def __init__(self) -> None:
        self.ids, self.mask = "input_ids", "attention_mask"
        self.types: str | None = None
        import onnx

        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}

    def constant(self, value: Any, name: str = "") -> str:
        """A constant; one with a name is stored only once."""
        name = name or f"constant_{len(self._constants)}"
        if name not in self._constants:
            self._constants[name] = np.asarray(value, order="C")
        return name

    def node(self, kind: str, *inputs: str, output: str = "", **options: Any) -> str:
        """Add a node and return the name of its output."""
        output = output or f"{kind}_{len(self._nodes)}"
        made = self._onnx.helper.make_node(kind, list(inputs), [output], output, **options)
        self._nodes.append(made)
        return output

    def split(self, x: str, count: int) -> list[str]:
        """Equal parts along the first axis."""
        if count == 1:
            return [x]
        outputs = [f"Split_{len(self._nodes)}_{at}" for at in range(count)]
        made = self._onnx.helper.make_node("Split", [x], outputs, axis=0, num_outputs=count)
        self._nodes.append(made)
        return outputs

    def linear(self, x: str, weights: Weights, name: str) -> str:
        """``x W^T + b`` with the weights called ``name``."""
        product = self.node("MatMul", x, self.constant(weights[f"{name}.weight"].T))
        bias = weights.get(f"{name}.bias")
        return product if bias is None else self.node("Add", product, self.constant(bias))

    def normalized(self, x: str, weights: Weights, name: str, *, epsilon: float) -> str:
        """Layer normalisation with the weights called ``name``."""
        scale, shift = (self.constant(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def activation(self, x: str, kind: str) -> str:
        """One of transformers' activations by its name."""
        if kind not in _ACTIVATIONS:
            raise NoGraphError(f"The activation {kind}")
        name, options = _ACTIVATIONS[kind]
        return self.node(name, x, **options)

    def cosine(self, u: str, v: str) -> str:
        """Cosines of ``[n, d]`` and ``[n, d]``, row by row."""
        products = [
            self.node("ReduceSum", self.node("Mul", a, b), self.constant([1]), keepdims=0)
            for a, b in ((u, v), (u, u), (v, v))
        ]
        lengths = self.node("Sqrt", self.node("Mul", *products[1:]))
        bounded = self.node("Max", lengths, self.constant(np.float32(1e-8)))
        return self.node("Div", products[0], bounded)

    def masked_mean(self, tokens: str, mask: str) -> str:
        """Mean of ``[n, t, d]`` over where the float mask ``[n, t]`` is 1."""
        row = self.node("Unsqueeze", mask, self.constant([1]))
        total = self.node("Squeeze", self.node("MatMul", row, tokens), self.constant([1]))
        count = self.node("ReduceSum", mask, self.constant([1]), keepdims=1)
        return self.node("Div", total, self.node("Max", count, self.constant(np.float32(1e-9))))

    def finish(
        self,
        inputs: Mapping[str, Sequence[str | int]],
        output: str,
        *axes: str,
        shown: Mapping[str, str] | None = None,
    ) -> bytes:
        """The graph as bytes.

        Args:
            inputs: axes of each integer input, by name.
            output: the node that is the result.
            axes: of the result.
            shown: nodes that are further outputs, by ``TOKENS`` and ``ATTENTION``.
        """
        helper, types = self._onnx.helper, self._onnx.TensorProto
        outputs = {RESULT: (output, axes)}
        outputs |= {name: (node, _SHOWN_AXES[name]) for name, node in (shown or {}).items()}
        for name, (node, _) in outputs.items():
            self.node("Identity", node, output=name)
        given = [
            helper.make_tensor_value_info(name, types.INT64, list(shape))
            for name, shape in inputs.items()
        ]
        made = [
            helper.make_tensor_value_info(name, types.FLOAT, list(shape))
            for name, (_, shape) in outputs.items()
        ]
        constants = [
            self._onnx.numpy_helper.from_array(value, name)
            for name, value in self._constants.items()
        ]
        graph = helper.make_graph(self._nodes, "model", given, made, constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        content: bytes = model.SerializeToString()
        return content


_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
}


@dataclass
class Layers:
    """The outputs of a backbone, as names of nodes.

    Attributes:
        states: hidden states ``[n, t, d]``: the embedding output, then every layer's.
        attention: attention weights ``[n, h, t, t]`` of every layer.
    """

    states: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Names:
    """The names of an architecture's weights, by default BERT's."""

    layer: str = "encoder.layer.{}."
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    projection: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    output_norm: str = "output.LayerNorm"


_BERT = _Names()
_MPNET = _Names(
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    projection="attention.attn.o",
    attention_norm="attention.LayerNorm",
)
_DISTILBERT = _Names(
    layer="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    projection="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    output_norm="output_layer_norm",
)


def _bert(graph: GraphBuilder, config: Config, weights: Weights) -> Layers:
    positions = weights["embeddings.position_embeddings.weight"]
    types = weights["embeddings.token_type_embeddings.weight"]
    embedded = _embedded(graph, weights, _first_positions(graph, positions + types[0]))
    if graph.types is not None:
        further = graph.node("Gather", graph.constant(types - types[0]), graph.types)
        embedded = graph.node("Add", embedded, further)
    return _encoder(graph, config, weights, _BERT, embedded, heads=config["num_attention_heads"])


def _roberta(graph: GraphBuilder, config: Config, weights: Weights) -> Layers:
    positions = weights["embeddings.position_embeddings.weight"]
    types = weights["embeddings.token_type_embeddings.weight"]
    places = _counted_positions(graph, positions + types[0], padding=config["pad_token_id"])
    embedded = _embedded(graph, weights, places)
    return _encoder(graph, config, weights, _BERT, embedded, heads=config["num_attention_heads"])


def _mpnet(graph: GraphBuilder, config: Config, weights: Weights) -> Layers:
    positions = weights["embeddings.position_embeddings.weight"]
    places = _counted_positions(graph, positions, padding=1)  # whatever the configuration says
    embedded = _embedded(graph, weights, places)
    bias = _relative_bias(graph, weights["encoder.relative_attention_bias.weight"], len(positions))
    heads = config["num_attention_heads"]
    return _encoder(graph, config, weights, _MPNET, embedded, heads=heads, bias=bias)


def _distilbert(graph: GraphBuilder, config: Config, weights: Weights) -> Layers:
    places = _first_positions(graph, weights["embeddings.position_embeddings.weight"])
    embedded = _embedded(graph, weights, places)
    known = {
        "num_hidden_layers": config["n_layers"],
        "hidden_act": config["activation"],
        "layer_norm_eps": 1e-12,
    }
    return _encoder(graph, known, weights, _DISTILBERT, embedded, heads=config["n_heads"])


_POST_NORM = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
}


@dataclass(frozen=True)
class _Architecture:
    """An architecture that has a graph.

    Attributes:
        build: writes its layers.
        settings: the settings that its results depend on, with the defaults for those that a
            configuration leaves out.
        names: names of its weights.
        further: weights outside the layers, besides words, positions and their normalisation.
    """

    build: Callable[[GraphBuilder, Config, Weights], Layers]
    settings: Mapping[str, Any]
    names: _Names = _BERT
    further: Sequence[str] = ("embeddings.token_type_embeddings.weight",)


_ROBERTA = _Architecture(_roberta, {**_POST_NORM, "pad_token_id": 1})
_TWIN, _TOWERS = "tertium-twin", ("first", "second")
# By the ``model_type`` of a configuration; a twin has two of them.
_ARCHITECTURES = {
    "bert": _Architecture(_bert, _POST_NORM),
    "camembert": _ROBERTA,
    "distilbert": _Architecture(
        _distilbert, {"activation": "gelu", "n_heads": 12, "n_layers": 6}, _DISTILBERT, ()
    ),
    "mpnet": _Architecture(_mpnet, _POST_NORM, _MPNET, ("encoder.relative_attention_bias.weight",)),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}


def settings(config: Config) -> dict[str, Any]:
    """The settings that a configuration's results depend on; raises if it has no graph."""
    kind = str(config.get("model_type"))
    if kind == _TWIN:
        return {"model_type": kind, **{tower: settings(config[tower]) for tower in _TOWERS}}
    known = _ARCHITECTURES.get(kind)
    if known is None or config.get("position_embedding_type", "absolute") != "absolute":
        raise NoGraphError(f"The architecture {kind}")
    chosen = {name: config.get(name, default) for name, default in known.settings.items()}
    return {"model_type": kind, **chosen}


def check_graph(config: Config, modules: "Sequence[Module]") -> None:
    """Raise NoGraphError unless an encoder of this configuration and these modules has a graph."""
    settings(config)
    for module in modules:
        if module.kind not in _MODULES:
            raise NoGraphError(f"The module {module.kind}")
        if module.kind == "Pooling" and pooling_mode(module.config) not in ("mean", "cls"):
            raise NoGraphError(f"The pooling {pooling_mode(module.config)}")
        if module.kind == "Dense" and _dense_activation(module) not in ("identity", *_ACTIVATIONS):
            raise NoGraphError(f"The activation {_dense_activation(module)}")


def needed_weights(config: Config) -> list[str]:
    """Names of all weights that the graph of an architecture reads."""
    chosen = settings(config)
    if chosen["model_type"] == _TWIN:
        return [f"{tower}.{name}" for tower in _TOWERS for name in needed_weights(chosen[tower])]
    known = _ARCHITECTURES[chosen["model_type"]]
    depth = chosen.get("num_hidden_layers") or chosen["n_layers"]
    inside = [value for part, value in vars(known.names).items() if part != "layer"]
    modules = [known.names.layer.format(at) + name for at in range(depth) for name in inside]
    modules.append("embeddings.LayerNorm")
    tables = ("word_embeddings", "position_embeddings")
    return [
        *(f"{name}.{part}" for name in modules for part in ("weight", "bias")),
        *(f"embeddings.{table}.weight" for table in tables),
        *known.further,
    ]


def backbone(graph: GraphBuilder, config: Config, weights: Weights) -> Layers:
    """The layers of a transformer, or of both towers of a twin with their states added."""
    chosen = settings(config)
    if chosen["model_type"] != _TWIN:
        return _ARCHITECTURES[chosen["model_type"]].build(graph, chosen, weights)
    one, two = (backbone(graph, chosen[t], _below(weights, f"{t}.")) for t in _TOWERS)
    return Layers([graph.node("Add", a, b) for a, b in zip(one.states, two.states, strict=True)])


def _embedded(graph: GraphBuilder, weights: Weights, positions: str) -> str:
    table = graph.constant(weights["embeddings.word_embeddings.weight"])
    return graph.node("Add", graph.node("Gather", table, graph.ids), positions)


def _first_positions(graph: GraphBuilder, table: NDArray[Any]) -> str:
    """The first t rows of the position table."""
    width = graph.node("Shape", graph.ids, start=1)
    return graph.node("Slice", graph.constant(table), graph.constant([0]), width)


def _counted_positions(graph: GraphBuilder, table: NDArray[Any], *, padding: int) -> str:
    """Positions counted over all tokens but padding, from ``padding + 1`` on."""
    is_padding = graph.node("Equal", graph.ids, graph.constant(np.int64(padding)))
    real = graph.node("Cast", graph.node("Not", is_padding), to=7)
    counted = graph.node("CumSum", real, graph.constant(np.int64(1)))
    places = graph.node("Add", graph.node("Mul", counted, real), graph.constant(np.int64(padding)))
    return graph.node("Gather", graph.constant(table), places)


def _relative_bias(graph: GraphBuilder, table: NDArray[Any], longest: int) -> str:
    """MPNet's bias ``[h, t, t]`` by the distance of two positions, in buckets as T5 has them."""
    buckets = len(table) // 2
    exact = buckets // 2
    distance = np.arange(-longest + 1, longest)  # key minus query
    apart = np.abs(distance)
    spread = np.log(np.maximum(apart, 1) / exact) / np.log(128 / exact) * (buckets - exact)
    far = np.minimum(exact + spread.astype(int), buckets - 1)
    bucket = np.where(apart < exact, apart, far) + np.where(distance > 0, buckets, 0)
    width = graph.node("Squeeze", graph.node("Shape", graph.ids, start=1))
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    places = graph.node("Range", zero, width, one)
    column = graph.node("Unsqueeze", places, graph.constant([1]))
    offsets = graph.node("Sub", places, column)
    shifted = graph.node("Add", offsets, graph.constant(np.int64(longest - 1)))
    found = graph.node("Gather", graph.constant(table[bucket]), shifted)
    return graph.node("Transpose", found, perm=[2, 0, 1])


def _encoder(
    graph: GraphBuilder,
    config: Config,
    weights: Weights,
    names: _Names,
    embedded: str,
    *,
    heads: int,
    bias: str | None = None,
) -> Layers:
    """Post-norm transformer layers on the embedding output."""
    epsilon = float(config["layer_norm_eps"])
    x = graph.normalized(embedded, weights, "embeddings.LayerNorm", epsilon=epsilon)
    hidden = graph.node("Equal", graph.mask, graph.constant(np.int64(0)))
    hidden = graph.node("Where", hidden, graph.constant(_MASKED), graph.constant(np.float32(0)))
    hidden = graph.node("Unsqueeze", hidden, graph.constant([1, 2]))
    shown = hidden if bias is None else graph.node("Add", bias, hidden)
    found = Layers([x])
    for at in range(config["num_hidden_layers"]):
        layer = _below(weights, names.layer.format(at))
        context, attention = _attention(graph, layer, names, x, shown, heads=heads)
        joined = graph.node("Add", graph.linear(context, layer, names.projection), x)
        x = graph.normalized(joined, layer, names.attention_norm, epsilon=epsilon)
        inner = graph.activation(graph.linear(x, layer, names.up), config["hidden_act"])
        joined = graph.node("Add", graph.linear(inner, layer, names.down), x)
        x = graph.normalized(joined, layer, names.output_norm, epsilon=epsilon)
        found.states.append(x)
        found.attention.append(attention)
    return found


def _attention(
    graph: GraphBuilder, layer: Weights, names: _Names, x: str, shown: str, *, heads: int
) -> tuple[str, str]:
    """Context ``[n, t, d]`` and weights ``[n, h, t, t]`` of one layer."""
    width = len(layer[f"{names.query}.bias"])

    def split(name: str, perm: list[int], scale: float = 1.0) -> str:
        scaled = {part: layer[f"{name}.{part}"] * np.float32(scale) for part in ("weight", "bias")}
        flat = graph.linear(x, {f"{name}.{part}": value for part, value in scaled.items()}, name)
        apart = graph.node("Reshape", flat, graph.constant([0, 0, heads, width // heads]))
        return graph.node("Transpose", apart, perm=perm)

    query = split(names.query, [0, 2, 1, 3], (width // heads) ** -0.5)
    key = split(names.key, [0, 2, 3, 1])
    value = split(names.value, [0, 2, 1, 3])
    scores = graph.node("Add", graph.node("MatMul", query, key), shown)
    attention = graph.node("Softmax", scores, axis=-1)
    context = graph.node("Transpose", graph.node("MatMul", attention, value), perm=[0, 2, 1, 3])
    return graph.node("Reshape", context, graph.constant([0, 0, width])), attention


@dataclass(frozen=True)
class Module:
    """A module after the transformer in sentence-transformers' list: kind, settings, weights."""

    kind: str
    config: Config
    weights: Weights


@dataclass(frozen=True)
class GraphSource:
    """The parts that the graph of an encoder is built from.

    Attributes:
        config: the backbone's configuration.
        weights: the backbone's weights by name, in single precision.
        modules: the modules after it.
    """

    config: Config
    weights: Weights
    modules: "Sequence[Module]"


def sentence_vector(graph: GraphBuilder, layers: Layers, modules: Sequence[Module]) -> str:
    """The sentence vector ``[n, d]`` that ``modules`` compute from the hidden states.

    Tokens whose mask is 2, those of an excluded prompt, are read but not pooled.
    """
    pooled = graph.node("Equal", graph.mask, graph.constant(np.int64(1)))
    mask = graph.node("Cast", pooled, to=1)
    x = layers.states[-1]
    for module in modules:
        if module.kind not in _MODULES:
            raise NoGraphError(f"The module {module.kind}")
        x = _MODULES[module.kind](graph, module, x, mask, layers)
    return x


def pooling_mode(config: Config) -> str:
    """``mean``, ``cls`` and so on, from the settings of a pooling of sentence-transformers."""
    if "pooling_mode" in config:
        return str(config["pooling_mode"])
    modes = [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, on in config.items()
        if on is True and key.startswith("pooling_mode_")
    ]
    return "+".join(modes)


def _pooling(graph: GraphBuilder, module: Module, x: str, mask: str, layers: Layers) -> str:
    mode = pooling_mode(module.config)
    if mode == "mean":
        return graph.masked_mean(x, mask)
    if mode == "cls":
        return graph.node("Gather", x, graph.constant(np.int64(0)), axis=1)
    raise NoGraphError(f"The pooling {mode}")


def _mixed_layers(graph: GraphBuilder, module: Module, x: str, mask: str, layers: Layers) -> str:
    weights = module.weights["layer_weights"]
    states = layers.states[module.config["layer_start"] :]
    used = [(w, s) for w, s in zip(weights / weights.sum(), states, strict=True) if w]
    parts = [graph.node("Mul", state, graph.constant(np.float32(w))) for w, state in used]
    return parts[0] if len(parts) == 1 else graph.node("Sum", *parts)


def _dense(graph: GraphBuilder, module: Module, x: str, mask: str, layers: Layers) -> str:
    changed = graph.linear(x, module.weights, "linear")
    kind = _dense_activation(module)
    return changed if kind == "identity" else graph.activation(changed, kind)


def _dense_activation(module: Module) -> str:
    return str(module.config.get("activation_function", "")).rpartition(".")[2].lower()


def _normalized(graph: GraphBuilder, module: Module, x: str, mask: str, layers: Layers) -> str:
    squares = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant([1]), keepdims=1)
    length = graph.node("Max", graph.node("Sqrt", squares), graph.constant(np.float32(1e-12)))
    return graph.node("Div", x, length)


_MODULES: dict[str, Callable[[GraphBuilder, Module, str, str, Layers], str]] = {
    "Dense": _dense,
    "Normalize": _normalized,
    "Pooling": _pooling,
    "WeightedLayerPooling": _mixed_layers,
}


def _below(weights: Weights, prefix: str) -> dict[str, NDArray[Any]]:
    """The weights whose names begin with ``prefix``, without it."""
    start = len(prefix)
    return {name[start:]: value for name, value in weights.items() if name.startswith(prefix)}
