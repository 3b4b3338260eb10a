"""Compares models on the user's own labelled pairs."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.data.overlap import pair_key
from tertium.data.ratings import Rating
from tertium.data.shapes import Example, Recognised, recognise
from tertium.engines.loading import load
from tertium.evaluation.calibration import fit_linear, fit_platt, log_loss, squared_error
from tertium.evaluation.leaks import find_excluded
from tertium.evaluation.metrics import (
    bootstrap_spearman,
    holm,
    paired_difference,
    spearman,
)
from tertium.evaluation.pairs import LabelledPairs, figures, folds_of, resampled, shares
from tertium.evaluation.raters import rater_agreement
from tertium.evaluation.report import current_command
from tertium.evaluation.thresholds import Ranking, average_precision
from tertium.models.base import Model
from tertium.recipes.fit import measures

__all__ = ["evaluate_pairs", "label_report"]

Vector = NDArray[np.float64]
Yes = NDArray[np.bool_] | None
_CURVE = 40  # minimum pairs for a learning curve
_DRAWS = 10  # subsets of each size


def evaluate_pairs(
    models: Sequence[Model | str | os.PathLike[str]],
    pairs: str | os.PathLike[str] | Recognised,
    *,
    positive: str | float | None = None,
    exclude: Iterable[str] = (),
    data: str | os.PathLike[str] | None = None,
    engine: str = "default",
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    **reading: Any,
) -> dict[str, Any]:
    """Figures of models on labelled pairs, as the labels allow, with intervals and paired tests.

    Bootstrap samples consist of whole groups of pairs that share sentences, and are the same for
    all models; p-values of several models are adjusted by Holm's method.

    Args:
        models: any number of models; the others are tested against the first.
        pairs: two texts and a grade, 0 or 1, or a word in every row.
        positive: lowest grade, or word, that counts as yes (default: the last word).
        exclude: files (``FILE`` or ``FILE:SPLIT``) whose pairs the leak-free figures exclude, as
            they do the data on a model's own card.
        data: benchmark folder, for the sets on a card.
        engine: engine that runs the models.
        resamples: bootstrap samples; 0 for no intervals and tests.
        seed: random seed for the bootstrap.
        progress: False for no progress on standard error.
        reading: options of :func:`tertium.data.recognise` for reading the file: columns, labels,
            scale, split.
    """
    found = pairs if isinstance(pairs, Recognised) else recognise(Path(pairs), **reading)
    own = LabelledPairs.read(found)
    yes, _ = own.positive(positive)
    own.check(yes)
    folder = benchmarks.find_folder(None if data is None else Path(data))
    counts = resampled(own, resamples=resamples, seed=seed)
    results: list[dict[str, Any]] = []
    scored: list[Vector] = []
    given = list(exclude)
    for each in models:
        model = each if isinstance(each, Model) else load(each, engine=engine)
        scores = measures(model, own.items, progress=progress)["score"]
        scored.append(scores)
        entry: dict[str, Any] = {"model": model.name, **figures(own, scores, yes, counts)}
        entry["leak_free"] = _leak_free(model, own, scores, yes, given, folder)
        entry["decision"] = _decided(model, scores, yes)
        results.append(entry)
    _test(own, results, scored, yes, counts)
    return {
        "pairs": len(own),
        "recognised": found.to_json(),
        "positives": None if yes is None else int(yes.sum()),
        "headline": own.headline,
        "models": results,
        "raters": rater_agreement(own.ratings, binary=own.binary),
        "notes": [*found.notes, *own.notes],
        "command": current_command(),
        "seed": seed,
    }


def _leak_free(
    model: Model,
    own: LabelledPairs,
    scores: Vector,
    yes: Yes,
    exclude: Iterable[str],
    folder: Path | None,
) -> dict[str, Any] | None:
    """The figures of unseen pairs; None if the model's training data is unknown."""
    excluded, keys = find_excluded(exclude, model.training_data, folder=folder)
    if not excluded:
        return None
    unseen = np.array([pair_key(item[0], item[1]) not in keys for item in own.items])
    found: dict[str, Any] = {"pairs": int(unseen.sum()), "removed": int((~unseen).sum())}
    kinds = 0 if yes is None else len(set(yes[unseen].tolist()))
    if unseen.sum() < 2 or kinds == 1:
        return {**found, "figures": None}
    rest = figures(own.subset(unseen), scores[unseen], None if yes is None else yes[unseen], None)
    return {**found, "figures": {name: value["value"] for name, value in rest.items()}}


def _decided(model: Model, scores: Vector, yes: Yes) -> dict[str, Any] | None:
    """The result of the model's own threshold on the pairs."""
    threshold = None if model.decision is None else model.decision.rule().threshold
    if threshold is None or yes is None:
        return None
    counts = Ranking(yes, scores).counts(threshold)
    return {"threshold": threshold, "accepted": int(counts.accepted), **shares(counts)}


def _test(
    own: LabelledPairs,
    results: list[dict[str, Any]],
    scored: list[Vector],
    yes: Yes,
    counts: NDArray[np.int32] | None,
) -> None:
    """Add to each model but the first the difference of its headline figure from the first's."""
    for entry in results:
        entry["difference"] = None
    if counts is None or len(results) < 2:
        return

    def measured(scores: Vector) -> tuple[float, Vector]:
        if own.binary and yes is not None:
            return average_precision(yes, scores), Ranking(yes, scores).average_precision(counts)
        assert counts is not None
        return spearman(own.labels, scores), bootstrap_spearman(own.labels, scores, counts)

    first, samples = measured(scored[0])
    tested = []
    for entry, scores in zip(results[1:], scored[1:], strict=True):
        value, others = measured(scores)
        entry["difference"] = paired_difference(value - first, others - samples)
        if entry["difference"]["p_value"] is not None:
            tested.append(entry["difference"])
    for entry, p in zip(tested, holm([entry["p_value"] for entry in tested]), strict=True):
        entry["p_adjusted"] = p
    for entry in results[1:]:
        entry["difference"].setdefault("p_adjusted", None)


def label_report(ratings: Sequence[Rating], model: Model, *, binary: bool) -> dict[str, Any]:
    """A summary of labels: how many by whom, agreement, and whether more of them would help.

    The curve is the loss on held-out pairs (log loss for yes and no, mean squared error for grades)
    of a calibration that was fitted on a quarter, half, three quarters and all of the others. If
    it has become flat, more labels of this kind change little.

    Args:
        ratings: the individual ratings.
        model: model whose scores are calibrated.
        binary: whether ratings say yes or no.
    """
    scale = OrderedLabels(0.0, 1.0) if binary else OrderedLabels(0.0, 5.0)
    by_pair: dict[tuple[str, ...], dict[str, float]] = {}
    counts: dict[str, int] = {}
    for rating in ratings:
        by_pair.setdefault(rating.pair, {})[rating.rater] = rating.label
        counts[rating.rater] = counts.get(rating.rater, 0) + 1
    examples = [
        Example(at, pair, float(np.mean(list(said.values()))), said if len(said) > 1 else {})
        for at, (pair, said) in enumerate(by_pair.items(), 1)
    ]
    own = LabelledPairs.of(examples, scale, binary=binary, file="labels")
    agreement = rater_agreement(own.ratings, binary=binary) if own.ratings else None
    curve = _curve(own, model)
    return {
        "pairs": len(by_pair),
        "raters": counts,
        "agreement": agreement,
        "curve": curve,
        "advice": _advice(len(own), curve),
    }


def _curve(own: LabelledPairs, model: Model) -> list[dict[str, float]]:
    """Held-out loss by the number of labels; empty if there are too few."""
    if len(own) < _CURVE or np.ptp(own.labels) == 0:
        return []
    scores, folds = measures(model, own.items, progress=False)["score"], folds_of(own)
    low, high = (0.01, 0.99) if own.binary else (own.scale.low, own.scale.high)
    fit, loss = (fit_platt, log_loss) if own.binary else (fit_linear, squared_error)
    curve = []
    for quarter in (1, 2, 3, 4):
        losses = []
        for draw in range(_DRAWS):
            order = np.random.default_rng(draw).permutation(len(own))
            used = np.zeros(len(own), bool)
            used[order[: len(own) * quarter // 4]] = True
            said = np.empty(len(own))
            for fold in np.unique(folds):
                held = folds == fold
                rest = used & (~held if (~held).any() else held)
                said[held] = fit(scores[rest], own.labels[rest], low, high)(scores[held])
            losses.append(loss(own.labels, said))
        curve.append({"labels": len(own) * quarter // 4, "loss": float(np.mean(losses))})
    return curve


def _advice(pairs: int, curve: list[dict[str, float]]) -> str:
    if not curve:
        return f"{pairs} labelled pairs: a learning curve needs {_CURVE} with different labels."
    before, after = curve[-2]["loss"], curve[-1]["loss"]
    gain = 100 * (before - after) / before if before else 0.0
    help_ = "more labels still help" if gain >= 1 else "more labels of this kind help little"
    return f"The last quarter of the labels lowered the held-out loss by {gain:.1f} %: {help_}."
