from pathlib import Path

import pytest

from tertium.training.stage import parameter_groups, parameter_settings
from tests.training.toys import toy_module

SETTINGS = {"learning_rate": 1.0, "weight_decay": 0.1, "layer_decay": 0.5, "depth": 3}


@pytest.mark.parametrize(
    ("name", "rate", "decay"),
    [
        ("encoder.layer.2.attention.self.query.weight", 1.0, 0.1),
        ("encoder.layer.1.attention.self.query.weight", 0.5, 0.1),
        ("model.0.auto_model.encoder.layer.0.output.dense.bias", 0.25, 0.0),
        ("model.0.model.layers.0.mlp.weight", 0.25, 0.1),
        ("encoder.layer.1.output.LayerNorm.weight", 0.5, 0.0),
        ("transformer.layer.0.sa_layer_norm.weight", 0.25, 0.0),
        ("embeddings.word_embeddings.weight", 1.0, 0.1),
        ("embeddings.LayerNorm.weight", 1.0, 0.0),
        ("objectives.smooth_k2.head.dense.weight", 1.0, 0.1),
        ("objectives.smooth_k2.head.dense.bias", 1.0, 0.0),
    ],
)
def test_what_a_parameter_gets(name: str, rate: float, decay: float) -> None:
    assert parameter_settings(name, **SETTINGS) == (rate, decay)  # type: ignore[arg-type]


def test_every_trainable_parameter_is_in_one_group(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert)
    frozen = module.encoder.backbone.get_input_embeddings().weight
    frozen.requires_grad = False
    groups = parameter_groups(module.named_parameters(), **SETTINGS)  # type: ignore[arg-type]
    found = [id(p) for group in groups for p in group["params"]]
    expected = [id(p) for p in module.parameters() if p is not frozen]
    assert sorted(found) == sorted(expected)
    assert {(group["lr"], group["weight_decay"]) for group in groups} == {
        (rate, decay) for rate in (1.0, 0.5, 0.25) for decay in (0.0, 0.1)
    }
