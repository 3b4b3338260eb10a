"""Do proposed pairs teach more than random ones? STS-B's grades are the rater.

What is learned: ridge regression on the cosine and on |u - v| and u * v of the embedded model's
vectors (all scaled to unit variance on the pool), as a head would, with the penalty that serves
held-out labels best; its figure is Spearman's correlation on the development part. And what
``tertium fit`` learns, a grade from the cosine; its figure is the mean absolute error there.

python benchmarks/label_loop.py --cache FOLDER
"""

import argparse
from pathlib import Path

import numpy as np
from common import data_folder, publish

import tertium
from tertium.corpus.labelling import propose
from tertium.data import benchmarks
from tertium.evaluation.calibration import fit_linear
from tertium.evaluation.metrics import spearman
from tertium.models.base import Embedder, unit_rows

SEEDS = 5
SIZES = (50, 100, 200)
POOL, DEV = 2000, 800
RIDGES = (3e2, 3e3, 3e4, 3e5)


class Known(Embedder):
    """A model whose vectors are known."""

    name = "known"
    dimension = 384

    def __init__(
        self, vectors: dict[str, np.ndarray], scores: dict[tuple[str, str], float] | None
    ) -> None:
        self._vectors, self._scores = vectors, scores

    def encode(self, texts, **options):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN201
        """Their vectors."""
        return np.stack([self._vectors[text] for text in texts])

    def score(self, items, **options):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN201
        """Their cosines, or the scores that were given."""
        if self._scores is None:
            return super().score(items)
        return np.array([self._scores[pair] for pair in items])


def main() -> None:
    """Label by proposal and at random."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    folder = data_folder()
    parts = {}
    for split, most in (("train", POOL), ("dev", DEV)):
        rows = benchmarks.load("STS-B", split=split, folder=folder, text="raw").rows
        order = np.random.default_rng(0).permutation(len(rows))[:most]
        parts[split] = {(rows[at].sentence1, rows[at].sentence2): rows[at].score for at in order}
    texts = sorted({text for part in parts.values() for pair in part for text in pair})
    file = options.cache / "label_loop.npz"
    if not file.exists():
        options.cache.mkdir(parents=True, exist_ok=True)
        every = {
            "texts": np.array(texts),
            "vectors": tertium.load("default", threads=1).encode(texts),
        }
        graded = tertium.load("sts-fast" if _known("sts-fast") else "sts", threads=1)
        every["scores"] = graded.score(list(parts["train"]))
        np.savez(file, **every)
    kept = np.load(file)
    vectors = dict(zip(texts, kept["vectors"], strict=True))
    second = Known(vectors, dict(zip(parts["train"], kept["scores"].tolist(), strict=True)))
    first = Known(vectors, None)
    pool = list(parts["train"])
    known, unseen = (_features(list(parts[split]), vectors) for split in ("train", "dev"))
    middle, spread = known.mean(axis=0), known.std(axis=0) + 1e-6
    known, unseen = (known - middle) / spread, (unseen - middle) / spread
    place = {pair: at for at, pair in enumerate(pool)}
    gold = np.array(list(parts["train"].values()))
    dev = np.array(list(parts["dev"].values()))
    start = 100 * spearman(dev, unseen[:, 0])
    rows = [["no labels: the cosine", "", f"{start:.2f}", ""]]
    ways = {
        "random": lambda n, seed: [
            pool[at] for at in np.random.default_rng(seed).permutation(len(pool))[:n]
        ],
        "proposed: range and diversity": lambda n, seed: propose(pool, first, count=n, seed=seed),
        "proposed: and disagreement with sts": lambda n, seed: propose(
            pool, first, count=n, second=second, seed=seed
        ),
    }
    for name, choose in ways.items():
        for size in SIZES:
            found, errors = [], []
            for seed in range(SEEDS):
                at = [place[pair] for pair in choose(size, seed)]
                found.append(100 * spearman(dev, unseen @ _head(known[at], gold[at])))
                cosines = known[:, 0], unseen[:, 0]
                line = fit_linear(cosines[0][at], gold[at], 0.0, 5.0)
                errors.append(float(np.abs(line(cosines[1]) - dev).mean()))
            figures = [f"{np.mean(each):.3f} ± {np.std(each):.3f}" for each in (found, errors)]
            rows.append([name, str(size), *figures])
    title = "Proposed or random pairs: STS-B dev after so many labels, 5 seeds"
    publish(
        "label_loop", title, ["pairs", "labels", "Spearman of a head", "error of the grade"], rows
    )


def _known(name: str) -> bool:
    from tertium.models.names import NAMES

    return name in NAMES


def _features(pairs: list[tuple[str, str]], vectors: dict[str, np.ndarray]) -> np.ndarray:
    u, v = (unit_rows(np.stack([vectors[pair[side]] for pair in pairs])) for side in (0, 1))
    cosine = (u * v).sum(axis=1, keepdims=True)
    return np.concatenate([cosine, np.abs(u - v), u * v], axis=1).astype(np.float64)


def _head(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights with the penalty whose error on held-out labels is smallest, of five folds."""
    folds = np.arange(len(y)) % 5

    def error(ridge: float) -> float:
        return sum(
            float(
                (
                    (
                        _ridge(x[folds != at], y[folds != at], ridge) @ x[folds == at].T
                        + y[folds != at].mean()
                        - y[folds == at]
                    )
                    ** 2
                ).sum()
            )
            for at in range(5)
        )

    return _ridge(x, y, min(RIDGES, key=error))


def _ridge(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Weights with a penalty on all but the cosine's."""
    penalty = np.full(x.shape[1], ridge)
    penalty[0] = 1.0
    return np.asarray(np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ (y - y.mean())))


if __name__ == "__main__":
    main()
