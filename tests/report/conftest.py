from pathlib import Path

import pytest

import tertium
from tertium.data.labels import OrderedLabels
from tertium.engines.static import distil_static
from tertium.heads import CONDITIONAL_HEADS, CosineHead
from tertium.models import ConditionalScorer, Encoder, Ensemble, PairScorer
from tertium.models.conditional import model_shape
from tertium.models.surgery import join_towers
from tertium.types import Pooling
from tests.models.test_towers import loaded, other_weights
from tests.recipes.toys import toy_pairs, toy_triples


@pytest.fixture(autouse=True)
def _coarse_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertium.report.page._DPI", 30)


@pytest.fixture(scope="session")
def kinds(
    tiny_bert: Path, tiny_roberta: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A folder of every kind that ``tertium.load`` knows."""
    folder = tmp_path_factory.mktemp("kinds")
    one = loaded(tiny_bert, Pooling.CLS)
    two = tertium.load(tiny_roberta, engine="torch")
    assert isinstance(two, Encoder)
    PairScorer(one, CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0)).save(folder / "pair")
    join_towers(one, other_weights(one)).save(folder / "twin")
    Ensemble([one, two]).save(folder / "ensemble")
    distil_static(one, dimensions=8).save(folder / "static")
    head = CONDITIONAL_HEADS["seaver"](model_shape(one))
    ConditionalScorer(one, head, OrderedLabels(1.0, 5.0)).save(folder / "conditional")
    names = ("pair", "twin", "ensemble", "static", "conditional")
    return {"encoder": tiny_bert, **{name: folder / name for name in names}}


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A folder that says it holds a model, with weights that are none."""
    folder = tmp_path_factory.mktemp("broken") / "damaged"
    folder.mkdir()
    for file in tiny_bert.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "model.safetensors").write_bytes(b"nothing")
    return folder


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return toy_pairs(tmp_path / "own pairs.tsv")


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    return toy_triples(tmp_path / "triples.tsv", pairs=8)
