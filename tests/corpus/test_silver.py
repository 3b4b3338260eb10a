import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tertium.corpus.silver import candidates, silver
from tertium.data.shapes import recognise
from tertium.errors import TertiumError
from tertium.types import TextPair
from tests.fakes import HashEncoder

PAIRS = [(f"left {at}", f"right {at}") for at in range(600)]


def read(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


def test_as_many_of_each_bin(tmp_path: Path) -> None:
    made = silver(PAIRS, [HashEncoder()], tmp_path / "silver.tsv", bins=4, per_bin=20)
    rows = read(tmp_path / "silver.tsv")
    assert len(rows) == made.kept == sum(kept for _, kept in made.bins)
    assert all(kept == min(had, 20) for had, kept in made.bins)
    assert sum(had for had, _ in made.bins) == 600
    scores = HashEncoder().score([(a, b) for a, b, _ in rows])
    assert [float(row[2]) for row in rows] == pytest.approx(scores, abs=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["silver.tsv"]


def test_the_same_again(tmp_path: Path) -> None:
    for name in ("a.tsv", "b.tsv"):
        silver(PAIRS, [HashEncoder()], tmp_path / name)
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()


class Failing(HashEncoder):
    """Ends in the middle, as a process that is killed."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def score(self, pairs: Iterable[TextPair], **options: Any) -> np.ndarray:
        pairs = list(pairs)
        self.after -= len(pairs)
        if self.after < 0:
            raise KeyboardInterrupt
        return super().score(pairs)


def test_it_resumes(tmp_path: Path) -> None:
    output = tmp_path / "silver.tsv"
    with pytest.raises(KeyboardInterrupt):
        silver(PAIRS, [Failing(300)], output)
    assert not output.exists()
    (journal,) = tmp_path.iterdir()
    with journal.open("a") as stream:
        stream.write("[599, 0.")  # cut off in the middle of a line
    counting = HashEncoder()
    made = silver(PAIRS, [counting], output)
    assert made.resumed == 256
    assert len(counting.seen) == 2 * (600 - 256)
    silver(PAIRS, [HashEncoder()], tmp_path / "whole.tsv")
    assert output.read_bytes() == (tmp_path / "whole.tsv").read_bytes()


def test_labels_of_another_teacher_are_not_mixed_in(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        silver(PAIRS, [Failing(300)], tmp_path / "silver.tsv")
    with pytest.raises(TertiumError, match="other pairs or teachers"):
        silver(PAIRS, [HashEncoder("other")], tmp_path / "silver.tsv")


def test_teachers_of_two_scales(tmp_path: Path) -> None:
    class Graded(HashEncoder):
        scale = (0.0, 5.0)

    with pytest.raises(TertiumError, match="one scale"):
        silver(PAIRS, [HashEncoder(), Graded()], tmp_path / "silver.tsv")
    made = silver(PAIRS, [HashEncoder(), HashEncoder("b")], tmp_path / "silver.tsv")
    assert made.kept > 0


def test_candidates_of_texts_and_of_pairs(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"text {at}" for at in range(80)) + "\n")
    found = candidates(recognise(texts), HashEncoder(), most=90, seed=0)
    assert len(found) == len({frozenset(pair) for pair in found}) == 90
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        "".join(json.dumps({"text1": "a", "text2": f"b {at % 7}"}) + "\n" for at in range(30))
    )
    assert len(candidates(recognise(pairs), None, most=100, seed=0)) == 7


def test_weighted_pairs_count_by_their_weight() -> None:
    torch = pytest.importorskip("torch")
    from tertium.objectives.base import reduce_terms
    from tertium.types import Term

    values = torch.tensor([1.0, 3.0])
    terms = {"loss": Term(values, weight=2.0)}
    assert reduce_terms(terms)["loss"] == 4.0
    assert reduce_terms(terms, torch.tensor([1.0, 0.5]))["loss"] == 2.5
    with pytest.raises(TertiumError, match="does not have one value per pair"):
        reduce_terms({"loss": Term(values.sum())}, torch.tensor([1.0, 0.5]))


def test_a_source_has_a_weight(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tertium.recipes.data import load_examples
    from tertium.recipes.files import read_recipe
    from tertium.training.examples import Examples

    for name in ("gold", "silver"):
        rows = "".join(f"{name} {at}\tother {at}\t{at % 6}\n" for at in range(12))
        (tmp_path / f"{name}.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    sources = [{"file": str(tmp_path / "gold.tsv")}]
    sources.append({"file": str(tmp_path / "silver.tsv"), "weight": 0.5})  # type: ignore[dict-item]
    settings = {"stages.stsb.data.sources": sources, "stages.stsb.select": None}
    stage = read_recipe("silver-minilm", settings=settings).stages[-1]
    examples = load_examples(stage, folder=None).examples
    assert isinstance(examples, Examples)
    for at in range(len(examples)):
        (first, _), label = examples[at]
        assert label[1] == (1.0 if first.startswith("gold") else 0.5)  # type: ignore[index]
    assert np.asarray(examples.weights).mean() == 0.75


def test_killed_between_two_windows(tmp_path: Path) -> None:
    """Every window is on the disk before the next one is labelled."""
    with pytest.raises(KeyboardInterrupt):
        silver(PAIRS, [Failing(550)], tmp_path / "silver.tsv")
    (journal,) = tmp_path.iterdir()
    assert len(journal.read_text().splitlines()) == 1 + 512
