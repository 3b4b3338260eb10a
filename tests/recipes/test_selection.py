from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tertium
from tertium.data import benchmarks
from tertium.errors import TertiumWarning
from tertium.evaluation import spearman
from tertium.evaluation.metrics import cosines
from tertium.models import Encoder
from tertium.recipes.files import read_recipe
from tertium.recipes.schema import SelectSpec, StageSpec
from tertium.recipes.selection import (
    _damaged,
    build_selection,
    recognition,
    resolve_selection,
)
from tests.fakes import HashEncoder
from tests.recipes.toys import contrast_stage, toy_recipe, toy_stage, triplet_stage
from tests.training.toys import toy_texts

# The toy benchmark sets are smaller than the real ones, which a warning says.
SMALL = pytest.mark.filterwarnings("ignore:.*rows in:tertium.errors.TertiumWarning")
TEXTS = [text for (text,) in toy_texts(24).texts]


class Words:
    """A sum of word vectors: a text without one word is still near itself."""

    def __init__(self, *, spread: float = 1.0) -> None:
        self.words = HashEncoder(dimension=64)
        self.spread = spread
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str], **_: Any) -> Tensor:
        self.texts += texts
        rows = [torch.from_numpy(self.words.encode(text.split())).sum(0) for text in texts]
        return self.spread * torch.stack(rows) + (1 - self.spread)


class Whole(Words):
    """Vectors of whole texts: what is damaged is like any other text."""

    def encode(self, texts: Sequence[str], **_: Any) -> Tensor:
        return torch.from_numpy(self.words.encode(texts))


def score(encoder: Any, texts: Sequence[str] = TEXTS) -> float:
    return recognition(encoder, texts)


# recognition


def test_recognition_is_deterministic() -> None:
    one, two = Words(), Words()
    assert score(one) == score(two)
    assert one.texts == two.texts
    assert len(one.texts) == 2 * len(TEXTS) and one.texts[: len(TEXTS)] == TEXTS


def test_an_encoder_that_is_better_at_it_scores_higher() -> None:
    good, dense, bad, collapsed = Words(), Words(spread=0.2), Whole(), Words(spread=0.0)
    chance = -torch.tensor(float(len(TEXTS))).log().item()
    assert 0 > score(good) > score(dense) > score(collapsed)
    assert score(good) > -0.2
    assert score(collapsed) == pytest.approx(chance)
    assert score(bad) < chance


def test_a_text_loses_a_fifth_of_its_words_and_never_all() -> None:
    long = " ".join(f"word{at}" for at in range(2000))
    kept = _damaged(long).split()
    assert 0.75 < len(kept) / 2000 < 0.85
    rest = iter(long.split())
    assert all(word in rest for word in kept)
    assert _damaged(long) == _damaged(long)
    for text in TEXTS:
        assert _damaged(text)
    assert {_damaged(word) for word in "abcdefghijklmnop"} == {*"abcdefghijklmnop"}


# which selection


def stage_of(stage: dict[str, Any], tmp_path: Path) -> StageSpec:
    return read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), stage)).stages[0]


@SMALL
def test_without_the_benchmark_texts_are_held_out_and_that_is_said(
    benchmarks_folder: Path, tmp_path: Path
) -> None:
    stage = stage_of(contrast_stage(Path("x"), select={"task": "STS-B", "every": 7}), tmp_path)
    assert resolve_selection(stage, folder=benchmarks_folder) is stage
    (tmp_path / "empty").mkdir()
    for folder in (None, tmp_path / "empty"):
        with pytest.warns(TertiumWarning, match="texts that are held out choose it"):
            found = resolve_selection(stage, folder=folder)
        assert found.select == SelectSpec(task="held-out", every=7)
        assert found.data == stage.data


@SMALL
def test_without_the_benchmark_graded_pairs_are_held_out_and_that_is_said(
    benchmarks_folder: Path, tmp_path: Path
) -> None:
    stage = stage_of({**toy_stage(Path("x")), "select": {"task": "STS-B", "every": 7}}, tmp_path)
    assert resolve_selection(stage, folder=benchmarks_folder) is stage
    with pytest.warns(TertiumWarning, match="a tenth of the pairs is held out and chooses it"):
        found = resolve_selection(stage, folder=None)
    assert found.select == SelectSpec(task="held-out", every=7)


def test_the_held_out_pairs_measure_the_encoder(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    pairs = [(f"the {a}", f"the {b}", float(a == b)) for a in "abcd" for b in "abc"]
    spec = SelectSpec(task="held-out")
    select = build_selection(spec, encoder, folder=None, held_out_pairs=pairs)
    assert select is not None
    first, second, gold = zip(*pairs, strict=True)
    found = cosines(encoder.encode(list(first)), encoder.encode(list(second)))
    assert select().score == pytest.approx(100 * spearman(np.array(gold), found), abs=1e-6)


def test_other_stages_keep_their_selection(tmp_path: Path) -> None:
    for content in (
        contrast_stage(Path("x")),
        contrast_stage(Path("x"), select={"task": "held-out"}),
        triplet_stage({"file": "x"}) | {"select": {"task": "STS-B"}},
    ):
        stage = stage_of(content, tmp_path)
        assert resolve_selection(stage, folder=None) is stage


def test_the_held_out_texts_measure_the_encoder(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    spec = SelectSpec(task="held-out")
    with pytest.warns(TertiumWarning, match="too few examples to hold any out"):
        assert build_selection(spec, encoder, folder=None) is None
    select = build_selection(spec, encoder, folder=None, held_out=TEXTS)
    assert select is not None
    encoder.model.train()  # a measurement has no dropout
    found = select()
    assert found == select() and encoder.model.training
    assert found.score == recognition(encoder, TEXTS) < 0
    assert found.effective_rank > 1 and found.anisotropy < 1


@SMALL
def test_the_benchmark_measures_the_encoder(tiny_bert: Path, benchmarks_folder: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    select = build_selection(SelectSpec(), encoder, folder=benchmarks_folder)
    assert select is not None
    rows = benchmarks.load("STS-B", split="dev", folder=benchmarks_folder).rows
    vectors = encoder.encode([text for row in rows for text in (row.sentence1, row.sentence2)])
    found = cosines(vectors[0::2], vectors[1::2])
    expected = 100 * spearman(np.array([row.score for row in rows]), found)
    assert select().score == pytest.approx(expected, abs=1e-6)
