from pathlib import Path

import pytest

from tertium.engines.export import ensure
from tertium.engines.graphs import EncoderGraph
from tertium.engines.runtimes import GRAPH
from tertium.models import Encoder
from tertium.types import EngineName
from tests.engines.models import encoder
from tests.fakes import tiny_model


@pytest.fixture(scope="session")
def flat_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer: its export, which the tests of a process share, takes less time."""
    return tiny_model(tmp_path_factory.mktemp("flat") / "flat-bert", layers=1)


@pytest.fixture
def flat(flat_bert: Path) -> Encoder:
    return encoder(flat_bert)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def flat_graph(flat_bert: Path) -> bytes:
    """Its exported graph."""
    graph = EncoderGraph(encoder(flat_bert))
    return (ensure(graph, EngineName.ONNX).folder / GRAPH).read_bytes()


@pytest.fixture
def quick_export(flat_graph: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports without the exporter, which takes seconds: the graph that it wrote before."""

    def write(self: EncoderGraph, path: Path) -> None:
        path.write_bytes(flat_graph)

    monkeypatch.setattr(EncoderGraph, "write", write)
