"""Graphs that are built from configuration and weights, against the models they are built from."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
)

from tertium.models.graphs import GraphBuilder, Module, NoGraphError, backbone, sentence_vector
from tertium.models.twin import twin_of

SHAPE = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
MODELS: dict[str, Any] = {
    "bert": lambda: BertModel(BertConfig(**SHAPE, hidden_act="relu")),
    "roberta": lambda: RobertaModel(RobertaConfig(**SHAPE)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**SHAPE)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(
            vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64
        )
    ),
    "tertium-twin": lambda: twin_of(BertModel(BertConfig(**SHAPE)), BertModel(BertConfig(**SHAPE))),
}


def _model(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += 0.05 * torch.randn_like(tensor)
    return model


def _batch(padding: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(5, 100, (3, 50))
    mask = np.ones_like(ids)
    ids[1, 30:], mask[1, 30:] = padding, 0
    ids[2, 1:], mask[2, 1:] = padding, 0
    return {"input_ids": ids, "attention_mask": mask}


def _run(graph: GraphBuilder, node: str, batch: dict[str, np.ndarray], axes: int) -> np.ndarray:
    names = [f"axis_{at}" for at in range(axes)]
    content = graph.finish({name: ["n", "t"] for name in batch}, node, *names)
    return onnxruntime.InferenceSession(content).run(None, batch)[0]


def _numbers(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_hidden_states_are_those_of_the_model(kind: str, layer: int) -> None:
    model = _model(kind)
    batch = _batch(model.config.pad_token_id)
    graph = GraphBuilder()
    layers = backbone(graph, model.config.to_dict(), _numbers(model))
    found = _run(graph, layers.states[layer], batch, 3)
    model.config.output_hidden_states = True
    with torch.no_grad():
        expected = model(**{name: torch.from_numpy(x) for name, x in batch.items()})
    real = batch["attention_mask"].astype(bool)
    np.testing.assert_allclose(found[real], expected.hidden_states[layer][real], atol=5e-6)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_attention_is_that_of_the_model(kind: str) -> None:
    model = _model(kind)
    model.set_attn_implementation("eager")
    batch = _batch(model.config.pad_token_id)
    graph = GraphBuilder()
    layers = backbone(graph, model.config.to_dict(), _numbers(model))
    found = _run(graph, layers.attention[-1], batch, 4)
    with torch.no_grad():
        inputs = {name: torch.from_numpy(x) for name, x in batch.items()}
        expected = model(**inputs, output_attentions=True).attentions[-1]
    np.testing.assert_allclose(found[:2, :, :30], expected[:2, :, :30], atol=1e-6)


def test_the_sentence_vector_by_hand() -> None:
    model = _model("bert")
    batch = _batch(0)
    graph = GraphBuilder()
    layers = backbone(graph, model.config.to_dict(), _numbers(model))
    mix = {"layer_weights": np.array([1.0, 0.0, 1.0], np.float32)}
    dense = {"linear.weight": np.eye(2, 32, dtype=np.float32)}
    modules = [
        Module("WeightedLayerPooling", {"layer_start": 0}, mix),
        Module("Pooling", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, {}),
        Module("Dense", {"activation_function": "torch.nn.modules.activation.Tanh"}, dense),
        Module("Normalize", {}, {}),
    ]
    found = _run(graph, sentence_vector(graph, layers, modules), batch, 2)
    model.config.output_hidden_states = True
    with torch.no_grad():
        states = model(**{name: torch.from_numpy(x) for name, x in batch.items()}).hidden_states
    for row, length in enumerate((50, 30, 1)):
        mean = ((states[0] + states[2]) / 2)[row, :length].mean(dim=0)
        vector = torch.tanh(mean[:2])
        np.testing.assert_allclose(found[row], vector / vector.norm(), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "modules", "reason"),
    [
        ({"model_type": "t5"}, [], "architecture t5"),
        ({"position_embedding_type": "relative_key"}, [], "architecture bert"),
        ({"hidden_act": "swish"}, [], "activation swish"),
        ({}, [Module("LSTM", {}, {})], "module LSTM"),
        ({}, [Module("Pooling", {"pooling_mode": "max"}, {})], "pooling max"),
    ],
)
def test_what_has_no_graph_is_named(config: Any, modules: list[Module], reason: str) -> None:
    model = _model("bert")
    graph = GraphBuilder()
    with pytest.raises(NoGraphError, match=reason):
        known = {**model.config.to_dict(), **config}
        sentence_vector(graph, backbone(graph, known, _numbers(model)), modules)
