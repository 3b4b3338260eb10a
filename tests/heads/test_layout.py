"""What is known of a head without torch, against the torch modules."""

import inspect
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.heads import CONDITIONAL_HEADS, HEADS
from tertium.heads.layout import HEAD_KINDS, complete, layout_of, weight_shapes
from tests.heads.test_conditional import SETTINGS, SHAPE, built

GIVEN = {"shape", "seed", "dimension", "low", "high"}  # by the model, or weights


def test_defaults_are_those_of_the_constructors() -> None:
    heads = {**HEADS, **CONDITIONAL_HEADS}
    reading = {kind for kind, known in HEAD_KINDS.items() if known.layout is not None}
    assert set(heads) == set(HEAD_KINDS) and set(CONDITIONAL_HEADS) == reading
    for kind, head in heads.items():
        parameters = inspect.signature(head).parameters
        found = {name: p.default for name, p in parameters.items() if name not in GIVEN}
        assert found == HEAD_KINDS[kind].defaults, kind


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_a_configuration_tells_what_a_conditional_head_reads_and_has(
    config: dict[str, Any],
) -> None:
    head = built(config)
    assert complete(config) == head.config() == complete(head.config())
    assert layout_of(head.config(), depth=SHAPE.depth) == head.layout
    shapes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    assert weight_shapes(head.config(), SHAPE) == shapes


@pytest.mark.parametrize(
    "config", [{"kind": "cosine"}, {"kind": "siamese", "features": ["|u-v|", "u"], "outputs": 3}]
)
def test_a_configuration_tells_what_a_pair_head_has(config: dict[str, Any]) -> None:
    settings = dict(config)
    head = HEADS[settings.pop("kind")](dimension=SHAPE.embedding, **settings)
    shapes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    assert weight_shapes(complete(config), SHAPE) == shapes


@pytest.mark.parametrize(
    ("settings", "sequences", "layers", "width"),
    [
        ({"kind": "bi"}, ((0, 2), (1, 2)), (), None),
        ({"kind": "bi", "subtract": 0.5}, ((0, 2), (1, 2), (2,)), (), None),
        ({"kind": "bi", "pooling": "condition"}, ((0, 2), (1, 2)), (-1,), None),
        ({"kind": "tri"}, ((0,), (1,), (2,)), (), None),
        ({"kind": "cross", "regressor": "flatten", "length": 6}, ((0, 1, 2),), (), 6),
        ({"kind": "seaver"}, ((0, 1, 2),), (-1,), None),
        ({"kind": "rand_aug", "layers": "mix"}, ((0, 1, 2),), (0, 1, 2), None),
    ],
    ids=str,
)
def test_layouts(
    settings: dict[str, Any], sequences: Any, layers: tuple[int, ...], width: int | None
) -> None:
    found = layout_of(complete(settings), depth=3)
    assert (found.sequences, found.attention_layers, found.width) == (sequences, layers, width)
    assert found.together == (settings["kind"] != "tri")


def test_an_earlier_name_of_a_pooling() -> None:
    assert complete({"kind": "bi", "pooling": "asked"})["pooling"] == "condition_tokens"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"kind": "bi", "depth": 3}, "The head bi has no setting depth"),
        ({"kind": "bi", "pooling": "max"}, "pooling must be one of encoder, sentence"),
        ({"kind": "cross", "regressor": 7}, "regressor must be one of"),
        ({"kind": "siamese", "features": ["w"]}, "features must be among"),
        ({"kind": "siamese", "features": []}, "features must be among"),
    ],
)
def test_settings_that_make_no_sense(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(TertiumError, match=reason):
        complete(config)
