"""Transfer tasks: accuracy of a logistic regression on frozen embeddings."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.benchmarks import Loaded
from tertium.evaluation.metrics import bootstrap_accuracy, bootstrap_counts, interval
from tertium.evaluation.tasks.base import Context, EmbeddingCache, Outcome, against_baseline
from tertium.progress import track

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

__all__ = ["FoldTask", "PairTask", "SplitTask", "TestTask"]

Features = NDArray[np.float32]
Labels = NDArray[Any]

STRENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)  # inverse regularisation, as scikit-learn's C
_OUTER, _INNER = 10, 5


@dataclass(frozen=True)
class Readout:
    """Predictions of a trained classifier on the test examples."""

    predicted: Labels
    gold: Labels

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each prediction is correct."""
        return np.asarray(self.predicted == self.gold)


@dataclass(frozen=True)
class _TransferTask(ABC):
    """The common part of the protocols, which differ in their training and test data."""

    name: str
    headline: str = "accuracy"
    protocol: str = ""

    def run(self, context: Context) -> Outcome:
        """Train a classifier on the model's embeddings, and on the baseline's if there is one."""
        parts = self._load(context)
        readout = self._read_out(context.cache, parts, context.seed)
        values = self._values(readout)
        samples = differences = None
        if context.resamples:
            samples = bootstrap_accuracy(
                readout.correct, resamples=context.resamples, seed=context.seed
            )
            values["interval"] = interval(samples)
            if context.baseline is not None:
                other = self._read_out(context.baseline, parts, context.seed)
                gap = readout.correct.astype(float) - other.correct
                counts = bootstrap_counts(len(gap), resamples=context.resamples, seed=context.seed)
                differences = counts @ gap / len(gap)
                values["baseline"] = against_baseline(
                    context.baseline, other.correct.mean(), gap.mean(), differences
                )
        return Outcome(values, self.protocol, parts[-1], samples, differences)

    @abstractmethod
    def _load(self, context: Context) -> list[Loaded]:
        """The parts of the data that the protocol needs, with the test part last."""

    @abstractmethod
    def _read_out(self, cache: EmbeddingCache, parts: list[Loaded], seed: int) -> Readout:
        """Train on some parts and predict the last."""

    def _features(self, cache: EmbeddingCache, data: Loaded) -> tuple[Features, Labels]:
        """Features and label of each example."""
        labels = np.array([row.label for row in data.rows])
        return cache.embed([row.sentence for row in data.rows]), labels

    def _values(self, readout: Readout) -> dict[str, Any]:
        return {
            "accuracy": 100 * float(readout.correct.mean()),
            "examples": len(readout.gold),
            "interval": None,
        }


@dataclass(frozen=True)
class FoldTask(_TransferTask):
    """10-fold cross-validation; regularisation chosen by 5 inner folds (MR, CR, SUBJ, MPQA)."""

    protocol: str = "10-fold CV, logistic regression, strength by 5 inner folds"

    def _load(self, context: Context) -> list[Loaded]:
        return [benchmarks.load(self.name, split="all", folder=context.folder)]

    def _read_out(self, cache: EmbeddingCache, parts: list[Loaded], seed: int) -> Readout:
        x, y = self._features(cache, parts[0])
        predicted = np.empty_like(y)
        folds = list(_folds(y, _OUTER, seed))
        for train, test in track(folds, label=self.name, unit="fold"):
            strength = _best_strength(x[train], y[train], _INNER, seed)
            predicted[test] = _fit(x[train], y[train], strength).predict(x[test])
        return Readout(predicted, y)


@dataclass(frozen=True)
class SplitTask(_TransferTask):
    """Train, development and test split (SST2)."""

    protocol: str = "train/dev/test, logistic regression, strength by dev accuracy"

    def _load(self, context: Context) -> list[Loaded]:
        splits = ("train", "dev", "test")
        return [benchmarks.load(self.name, split=s, folder=context.folder) for s in splits]

    def _read_out(self, cache: EmbeddingCache, parts: list[Loaded], seed: int) -> Readout:
        (x, y), (x_dev, y_dev), (x_test, y_test) = (self._features(cache, part) for part in parts)
        fitted = [
            _fit(x, y, strength) for strength in track(STRENGTHS, label=self.name, unit="fit")
        ]
        best = max(fitted, key=lambda model: float(model.score(x_dev, y_dev)))
        return Readout(best.predict(x_test), y_test)


@dataclass(frozen=True)
class TestTask(_TransferTask):
    """Regularisation chosen by 10-fold cross-validation on train, then test (TREC)."""

    __test__ = False  # not a test class for pytest, despite its name

    protocol: str = "strength by 10-fold CV on train, logistic regression, test split"

    def _load(self, context: Context) -> list[Loaded]:
        return [
            benchmarks.load(self.name, split=split, folder=context.folder)
            for split in ("train", "test")
        ]

    def _read_out(self, cache: EmbeddingCache, parts: list[Loaded], seed: int) -> Readout:
        (x, y), (x_test, y_test) = (self._features(cache, part) for part in parts)
        strength = _best_strength(x, y, _OUTER, seed)
        return Readout(_fit(x, y, strength).predict(x_test), y_test)


@dataclass(frozen=True)
class PairTask(TestTask):
    """The same on features ``|u - v|`` and ``u * v`` of a pair, with F1 (MRPC)."""

    def _features(self, cache: EmbeddingCache, data: Loaded) -> tuple[Features, Labels]:
        u = cache.embed([row.sentence1 for row in data.rows])
        v = cache.embed([row.sentence2 for row in data.rows])
        labels = np.array([row.label for row in data.rows])
        return np.concatenate([np.abs(u - v), u * v], axis=1), labels

    def _values(self, readout: Readout) -> dict[str, Any]:
        from sklearn.metrics import f1_score

        f1 = f1_score(readout.gold == "1", readout.predicted == "1")
        return {**super()._values(readout), "f1": 100 * float(f1)}


def _folds(y: Labels, count: int, seed: int) -> Iterator[tuple[Any, Any]]:
    from sklearn.model_selection import StratifiedKFold

    yield from StratifiedKFold(count, shuffle=True, random_state=seed).split(y, y)


def _best_strength(x: Features, y: Labels, folds: int, seed: int) -> float:
    """The inverse regularisation with the most correct predictions over the folds."""
    correct = dict.fromkeys(STRENGTHS, 0)
    for train, test in _folds(y, folds, seed):
        for strength in STRENGTHS:
            predicted = _fit(x[train], y[train], strength).predict(x[test])
            correct[strength] += int((predicted == y[test]).sum())
    return max(correct, key=lambda strength: correct[strength])


def _fit(x: Features, y: Labels, strength: float) -> "LogisticRegression":
    """L-BFGS in double precision: in single precision it stops before accuracies converge."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, tol=1e-5, max_iter=5000).fit(x.astype(np.float64), y)
