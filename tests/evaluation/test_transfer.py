from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tertium.evaluation import run
from tertium.evaluation.tasks import transfer
from tests.evaluation.conftest import Folder, Placed
from tests.fakes import HashEncoder

SPLITS = {"SST2": ("train", "dev", "test"), "TREC": ("train", "test"), "MRPC": ("train", "test")}
NOISE = HashEncoder(dimension=4)


def on_its_side(text: str) -> np.ndarray:
    """Texts that begin with a minus lie on one side, others on the other."""
    return np.array([-5 if text.startswith("-") else 5, *NOISE.encode([text])[0]])


def write(folder: Folder, name: str, label: Callable[[str, int], object], *, n: int = 40) -> None:
    """Half the texts of every split begin with a minus; a pair repeats its text or turns it."""
    rows = []
    for split in SPLITS.get(name, ("all",)):
        for at in range(n):
            text = f"{'-' if at % 2 else '+'} {split} {at}"
            texts = (text, f"+ {split} other {at}") if name == "MRPC" else (text,)
            rows.append((split, label(text, at), *texts))
    columns = "sentence1 sentence2" if name == "MRPC" else "sentence"
    folder.write(f"{name.lower()}.tsv", f"split label {columns}", rows)


def by_side(text: str, at: int) -> int:
    return int(text.startswith("-"))


def values(folder: Folder, name: str, model: Any = None, **options: Any) -> dict[str, Any]:
    options = {"resamples": 0, **options}
    report = run(model or Placed(on_its_side), {"t": [name]}, folder=folder.path, **options)
    return report["t"].tasks[0].values


@pytest.mark.parametrize("name", ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"])
def test_separable_classes_are_read_out(folder: Folder, name: str) -> None:
    write(folder, name, by_side)
    found = values(folder, name)
    assert (found["accuracy"], found["examples"]) == (100, 40)
    assert found.get("f1") == (100 if name == "MRPC" else None)


@pytest.mark.parametrize("name", ["MR", "TREC"])
def test_random_labels_are_not(folder: Folder, name: str) -> None:
    labels = np.random.default_rng(0).integers(0, 2, 400)
    write(folder, name, lambda text, at: labels[(at + 7 * len(text)) % 400], n=200)
    assert 35 < values(folder, name)["accuracy"] < 65


def test_f1_is_that_of_class_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "MRPC", lambda text, at: int(at < 10))
    always = _stub(lambda x, strength: np.full(len(x), "1"))
    monkeypatch.setattr(transfer, "_fit", always)
    found = values(folder, "MRPC")
    assert found["accuracy"] == pytest.approx(25)
    assert found["f1"] == pytest.approx(100 * 2 * 10 / (40 + 10))


def test_the_same_seed_gives_the_same_result(folder: Folder) -> None:
    labels = np.random.default_rng(1).integers(0, 2, 60)
    write(folder, "MR", lambda text, at: labels[at], n=60)
    first, second, other = (
        values(folder, "MR", HashEncoder(dimension=3), seed=s, resamples=20) for s in (0, 0, 1)
    )
    assert first == second
    assert first["interval"] != other["interval"]


def test_a_baseline_reads_the_same_folds(folder: Folder) -> None:
    write(folder, "CR", by_side)
    other = HashEncoder("noise", dimension=3)
    alone = values(folder, "CR", other)["accuracy"]
    entry = values(folder, "CR", baseline=other, resamples=99)["baseline"]
    assert entry["value"] == pytest.approx(alone)
    assert entry["difference"] == pytest.approx(100 - alone)
    assert entry["p_value"] == pytest.approx(2 / 100)


def test_dev_chooses_the_strength(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only strength 4 is right on dev and only strength 64 on test, so test counts as wrong."""
    write(folder, "SST2", lambda text, at: {"dev": "4.0", "test": "64.0"}.get(text.split()[1], "t"))
    monkeypatch.setattr(transfer, "_fit", _stub(lambda x, strength: np.full(len(x), str(strength))))
    assert values(folder, "SST2")["accuracy"] == 0
    write(folder, "SST2", lambda text, at: "4.0" if text.split()[1] != "train" else "t")
    assert values(folder, "SST2")["accuracy"] == 100


@pytest.mark.parametrize("best", [0.25, 16.0])
def test_inner_folds_choose_the_strength(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, best: float
) -> None:
    write(folder, "TREC", lambda text, at: "yes")
    answers = lambda x, strength: np.full(len(x), "yes" if strength == best else "no")  # noqa: E731
    monkeypatch.setattr(transfer, "_fit", _stub(answers))
    assert values(folder, "TREC")["accuracy"] == 100


def _stub(answer: Callable[[np.ndarray, float], np.ndarray]) -> Callable[..., Any]:
    """A readout that learns nothing: what it answers depends on its strength alone."""

    class Readout:
        def __init__(self, x: np.ndarray, y: np.ndarray, strength: float) -> None:
            self.strength = strength

        def predict(self, x: np.ndarray) -> np.ndarray:
            return answer(x, self.strength)

        def score(self, x: np.ndarray, y: np.ndarray) -> float:
            return float((self.predict(x) == y).mean())

    return Readout
