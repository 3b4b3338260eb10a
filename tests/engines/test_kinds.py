"""Every engine gives what torch gives, for every kind of model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium.engines.export import export
from tertium.engines.graphs import graphs_of
from tertium.models import TripleScorer
from tests.engines.models import KINDS, runs_here, write
from tests.models.test_conditional import TRIPLES

TEXTS = ["the cat sleeps .", "a dog barks", "", "a b c d e f g h i j k l m n o", "a dog barks", "x"]
RELATED = ("mix", "rand_aug", "asked", "tri")  # to kinds that are tested always
TOLERANCES = {"onnx": 2e-5, "openvino": 2e-5, "onnx-int8": 0.05, "openvino-int8": 0.05}

pytestmark = pytest.mark.integration
pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
pytest.importorskip("openvino", reason="the extra 'fast' is not installed")


def answers(model: Any) -> np.ndarray:
    """Scores within their scale, or vectors of length 1."""
    if isinstance(model, TripleScorer):
        low, high = model.scale
        return (model.score(TRIPLES, within_scale=False) - low) / (high - low)
    return np.asarray(model.encode(TEXTS, normalize=True))


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] if kind in RELATED else []) for kind in KINDS],
)
def test_engines_agree_with_torch(kind: str, tmp_path: Path) -> None:
    folder = write(kind, tmp_path)
    model = tertium.load(folder, engine="torch")
    expected = answers(model)
    for engine, tolerance in TOLERANCES.items():
        with runs_here():
            fast = tertium.load(folder, engine=engine)
        assert {graph.part.engine.name for graph in graphs_of(fast)} == {engine}  # type: ignore[union-attr]
        found = answers(fast)
        assert found.dtype == np.float32 and found.shape == expected.shape
        difference = np.abs(found - expected)
        assert difference.max() < tolerance, engine
        assert difference.max() > 0 or "int8" not in engine  # else torch has answered
        for part in export(model, engine):  # found, not made again
            assert part.record.parity is not None
            assert part.record.parity.items > 40
    assert all(graph.part.engine is None for graph in graphs_of(model))
