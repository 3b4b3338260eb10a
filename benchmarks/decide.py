"""Is the promised precision kept on pairs that nobody fitted on?

Subsets of pairs of a pool are what a user labels; thresholds are fitted on them and measured on
another part of the set. Ten draws each. ``naive`` is the lowest threshold whose precision on the
subset is what is wanted.

python benchmarks/decide.py --cache FOLDER
"""

import argparse
import gzip
import hashlib
from pathlib import Path

import numpy as np
from common import data_folder, publish

import tertium
from tertium.data.labels import OrderedLabels
from tertium.data.readers import read_rows
from tertium.data.rows import Row
from tertium.data.shapes import Example
from tertium.errors import TertiumError
from tertium.evaluation.pairs import Aim, LabelledPairs, decide, folds_of
from tertium.evaluation.thresholds import Ranking, average_precision

SEEDS = 10
SIZES = (200, 1000)
WANTED = (0.8, 0.9, 0.95)


class _Pair(Row):
    sentence1: str
    sentence2: str
    label: str = ""
    score: str = ""
    entailment: str = ""


def mrpc(folder: Path, split: str) -> LabelledPairs:
    """MRPC: paraphrase or not."""
    rows = read_rows(folder / "mrpc.tsv", _Pair, split=split)
    return _binary([(r.sentence1, r.sentence2, r.label == "1") for r in rows])


def stsb(folder: Path, split: str) -> LabelledPairs:
    """STS-B: grades from 4 on count as yes."""
    rows = read_rows(folder / "stsb_raw.tsv", _Pair, split=split)
    return _binary([(r.sentence1, r.sentence2, float(r.score) >= 4) for r in rows])


def sick(folder: Path, split: str) -> LabelledPairs:
    """SICK's words: entailment is yes, neutral and contradiction are no."""
    rows = read_rows(folder / "sick_raw.tsv", _Pair, split=split)
    return _binary([(r.sentence1, r.sentence2, r.entailment == "ENTAILMENT") for r in rows])


def nli(folder: Path, split: str) -> LabelledPairs:
    """Pairs of SNLI of about the same length: entailment as duplicate, the rest as not."""
    wanted = {"train": "snli_dev", "test": "snli_test"}[split]
    found = []
    with gzip.open(folder / "nli_pairs.tsv.gz", "rt", encoding="utf-8") as stream:
        for line in stream:
            source, label, first, second = line.rstrip("\n").split("\t")
            lengths = sorted(len(text.split()) for text in (first, second))
            if source == wanted and lengths[0] >= 0.7 * lengths[1]:
                found.append((first, second, label == "entailment"))
    return _binary(found)


SETS = {
    "MRPC": (mrpc, "train", "test"),
    "STS-B ≥ 4": (stsb, "train", "test"),
    "SICK entailment": (sick, "train", "test"),
    "SNLI duplicates": (nli, "train", "test"),
}


def _binary(rows: list[tuple[str, str, bool]]) -> LabelledPairs:
    examples = [Example(at, (a, b), float(yes)) for at, (a, b, yes) in enumerate(rows, 1)]
    return LabelledPairs.of(examples, OrderedLabels(0.0, 1.0), binary=True)


def scores_of(pairs: LabelledPairs, model: str, cache: Path) -> np.ndarray:
    """Scores by the model, kept in a file."""
    key = hashlib.sha256(f"{model} {pairs.items}".encode()).hexdigest()[:16]
    file = cache / f"{key}.npy"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(file, np.asarray(tertium.load(model, threads=1).score(pairs.items), np.float64))
    return np.asarray(np.load(file))


def draw(pairs: LabelledPairs, size: int, seed: int) -> np.ndarray:
    """Whole components, in a random order, until there are so many pairs."""
    order = np.random.default_rng(seed).permutation(int(pairs.groups.max()) + 1)
    sizes = np.bincount(pairs.groups)[order]
    chosen = order[: int(np.searchsorted(np.cumsum(sizes), size)) + 1]
    return np.isin(pairs.groups, chosen)


def naive(labels: np.ndarray, scores: np.ndarray, wanted: float) -> float | None:
    """The lowest threshold with the wanted precision on the pairs themselves."""
    order = np.argsort(-scores, kind="stable")
    share = np.cumsum(labels[order]) / np.arange(1, len(order) + 1)
    reached = np.flatnonzero(share >= wanted)
    return float(scores[order][reached[-1]]) if len(reached) else None


def main() -> None:
    """Fit on subsets, measure on the test part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default="default")
    options = parser.parse_args()
    folder = data_folder()
    rows = []
    for name, (read, train, test) in SETS.items():
        pool, held = read(folder, train), read(folder, test)
        known = scores_of(pool, options.model, options.cache)
        unseen = scores_of(held, options.model, options.cache)
        yes = held.labels > 0.5
        ranking = Ranking(yes, unseen)
        ap = 100 * average_precision(yes, unseen)
        for size in SIZES:
            subsets = [draw(pool, size, seed) for seed in range(SEEDS)]
            f1s = [_f1(pool.subset(rows_), known[rows_], ranking) for rows_ in subsets]
            for wanted in WANTED:
                found = [_promise(pool, known, rows_, ranking, wanted) for rows_ in subsets]
                plain = [_naive(pool, known, rows_, ranking, wanted) for rows_ in subsets]
                rows.append(
                    [
                        name,
                        str(size),
                        f"{ap:.1f}",
                        f"{np.mean(f1s):.1f} ± {np.std(f1s):.1f}",
                        f"{wanted:g}",
                        *_said(found, wanted),
                        *_said(plain, wanted),
                    ]
                )
    header = ["set", "pairs", "AP", "F1", "wanted precision", "promised", "kept"]
    header += ["precision", "recall", "naive: given", "kept", "precision", "recall"]
    title = "Thresholds on new pairs: fitted on subsets, measured on the test part, 10 draws"
    publish("decide", title, header, rows)


def _f1(own: LabelledPairs, scores: np.ndarray, ranking: Ranking) -> float:
    rule, _ = decide(own, scores, own.labels > 0.5, folds_of(own), Aim())
    assert rule.threshold is not None
    return 100 * ranking.counts(rule.threshold).f1


def _promise(
    pool: LabelledPairs, known: np.ndarray, rows: np.ndarray, ranking: Ranking, wanted: float
) -> tuple[float, float] | None:
    own = pool.subset(rows)
    try:
        rule, _ = decide(
            own, known[rows], own.labels > 0.5, folds_of(own), Aim("precision", wanted)
        )
    except TertiumError:
        return None
    assert rule.threshold is not None
    counts = ranking.counts(rule.threshold)
    return counts.precision, counts.recall


def _naive(
    pool: LabelledPairs, known: np.ndarray, rows: np.ndarray, ranking: Ranking, wanted: float
) -> tuple[float, float] | None:
    threshold = naive(pool.labels[rows] > 0.5, known[rows], wanted)
    if threshold is None:
        return None
    counts = ranking.counts(threshold)
    return (counts.precision, counts.recall) if counts.accepted else None


def _said(found: list[tuple[float, float] | None], wanted: float) -> list[str]:
    given = [each for each in found if each is not None]
    if not given:
        return ["0", "", "", ""]
    precision, recall = (np.array(side) for side in zip(*given, strict=True))
    return [
        str(len(given)),
        f"{int((precision >= wanted).sum())} of {len(given)}",
        f"{100 * precision.mean():.1f}",
        f"{100 * recall.mean():.1f}",
    ]


if __name__ == "__main__":
    main()
