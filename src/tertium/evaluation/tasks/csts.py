"""Conditional similarity: C-STS, which has every sentence pair under two conditions."""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.data import benchmarks, csts
from tertium.data.overlap import pair_key
from tertium.data.rows import ConditionalPair
from tertium.errors import TertiumError
from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_pearson,
    bootstrap_spearman,
    defined,
    hundred,
    interval,
    pearson,
    spearman,
)
from tertium.evaluation.tasks.base import Context, EmbeddingCache, Measured, Outcome, measure
from tertium.files import write_text
from tertium.models.base import Model
from tertium.models.tokens import unique

__all__ = [
    "CONDITION_TYPES",
    "OTHER",
    "CstsTask",
    "Sensitivity",
    "clustered_counts",
    "condition_sensitivity",
    "condition_type",
    "write_predictions",
]

_PROTOCOL = (
    "Spearman of score and label over all triples; intervals by resampling sentence pairs with all "
    "their conditions"
)

OTHER = "other"

# Words that tell what a condition asks for. The first type with a word of the condition is its
# type: attributes come before things, since "the color of the dog" asks for a color.
CONDITION_TYPES: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "number": "number numbers amount quantity count many",
        "color": "color colors colour colours",
        "gender and age": "gender genders sex age ages",
        "presence": "presence absence",
        "clothing": "clothing clothes outfit attire dress shirt wear wears wearing worn",
        "action": "action actions activity activities motion movement speed doing posture "
        "performed played playing",
        "place": "place places location setting position room where surface ground terrain "
        "landscape environment weather elevation kitchen bathroom",
        "sport and play": "sport sports game games hobby instrument player players toy",
        "animal": "animal animals dog dogs cat cats species bird birds horse horses",
        "food": "food foods dish dishes meal meals fruit fruits plate",
        "vehicle": "vehicle vehicles transportation train bus car boat bike",
        "person": "person persons people man men woman women child children boy girl occupation "
        "profession rider riders",
        "object": "object objects item items thing things product device equipment furniture "
        "material",
    }.items()
}


def condition_type(condition: str) -> str:
    """The first key of ``CONDITION_TYPES`` with a word of the condition, else ``OTHER``.

    >>> condition_type("The color of the dog."), condition_type("The kind of dog.")
    ('color', 'animal')
    """
    words = set(re.findall(r"[a-z]+", condition.lower()))
    return next((name for name, known in CONDITION_TYPES.items() if known & words), OTHER)


@dataclass(frozen=True)
class Sensitivity:
    """How a model's score changes if only the condition changes.

    With ``p`` the difference of two scores of the same sentences under two conditions, and ``g``
    that of the labels:

    Attributes:
        movement: mean |p| over mean |g|, each in standard deviations of all scores and all labels:
            0 for a model that ignores conditions, 1 for one that moves as much as the labels.
        agreement: Σ p·g / √(Σ p² · Σ g²), from -1 to 1; NaN for a model that never moves.
        direction: share of differences whose p and g have the same sign, among those whose labels
            differ; no movement counts half, so a model that ignores conditions has 0.5.
        pairs: number of differences.
    """

    movement: float
    agreement: float
    direction: float
    pairs: int


def condition_sensitivity(
    gold: ArrayLike, predicted: ArrayLike, groups: Sequence[Hashable]
) -> Sensitivity:
    """Compare rows of the same group, which are the same sentences under different conditions.

    The result is independent of the order of conditions and of the scale of scores.
    """
    labels, scores = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    rows: defaultdict[Hashable, list[int]] = defaultdict(list)
    for at, group in enumerate(groups):
        rows[group].append(at)
    couples = [couple for members in rows.values() for couple in itertools.combinations(members, 2)]
    if not couples:
        return Sensitivity(np.nan, np.nan, np.nan, 0)
    first, second = np.array(couples).T
    g, p = labels[first] - labels[second], scores[first] - scores[second]
    differ = g != 0
    signs = np.sign(g[differ]) * np.sign(p[differ])
    return Sensitivity(
        movement=_ratio(_spread(p, scores), _spread(g, labels)),
        agreement=_ratio(float(p @ g), float(np.sqrt((p @ p) * (g @ g)))),
        direction=float((signs + 1).mean() / 2) if differ.any() else float("nan"),
        pairs=len(couples),
    )


def _spread(differences: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    return _ratio(float(np.abs(differences).mean()), float(values.std()))


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else float("nan")


def clustered_counts(groups: Sequence[Any], *, resamples: int, seed: int) -> NDArray[np.int32]:
    """How often each row occurs in each bootstrap sample of whole groups.

    Rows of a group, the same sentences under different conditions, are drawn together: they are not
    independent, so drawing them separately would make intervals too narrow.
    """
    distinct, of_row = unique(groups)
    return bootstrap_counts(len(distinct), resamples=resamples, seed=seed)[:, of_row]


@dataclass(frozen=True)
class CstsTask:
    """The validation split of C-STS, whose test labels are hidden."""

    name: str
    headline: str = "spearman"
    split: str = "validation"

    def run(self, context: Context) -> Outcome:
        """Score all triples; for a model without conditions, the score is the cosine."""
        data = benchmarks.load(self.name, split=self.split, folder=context.folder)
        rows: tuple[ConditionalPair, ...] = data.rows
        triples = [(row.sentence1, row.sentence2, row.condition) for row in rows]
        gold = _labels(rows, self.split)
        careful = _reannotated("C-STS-relabelled", self.split, context.folder, len(rows))
        revised = _reannotated("C-STS-revised", self.split, context.folder, len(rows))
        groups = [pair_key(first, second) for first, second, _ in triples]
        counts = None
        if context.resamples:
            counts = clustered_counts(groups, resamples=context.resamples, seed=context.seed)
        found = measure(context, triples, gold, counts)
        values = _values(rows, gold, found, groups, counts) | found.entries
        if careful is not None:
            values["careful"] = _careful(careful, gold, found.predicted, counts)
        if revised is not None:
            items = [(row.sentence1, row.sentence2, row.condition) for row in revised]
            predicted = context.cache.similarities(items)
            values["revised"] = _careful(revised, None, predicted, counts)
        return Outcome(values, _PROTOCOL, data, found.agreement.samples, found.differences)


def _reannotated(
    name: str, split: str, folder: Path | None, expected: int
) -> tuple[ConditionalPair, ...] | None:
    """Rows of a re-annotation, in the order of C-STS; None if it is not available."""
    found = benchmarks.find_folder(folder)
    file = csts.find_file(found, split, name) if found is not None else None
    if file is None:
        return None
    rows = benchmarks.load(name, split=split, folder=found).rows
    if len(rows) != expected or all(row.label is None for row in rows):
        what = f"{len(rows):,} rows instead of {expected:,}"
        raise TertiumError(
            f"{file} has {what if len(rows) != expected else 'no labels'}. "
            f"{csts.PUBLISHED[name].how_to_get}."
        )
    return rows


def _careful(
    rows: Sequence[ConditionalPair],
    original: NDArray[np.float64] | None,
    predicted: NDArray[np.float64],
    counts: NDArray[np.int32] | None,
) -> dict[str, Any]:
    """Agreement with careful labels on the rows that have one.

    With the original labels of the same rows, also the agreement with those, and the ``ceiling``:
    the agreement of the careful labels themselves with the original ones.
    """
    valid = np.array([row.label is not None for row in rows])
    gold = np.array([row.label for row in rows if row.label is not None])
    scores = predicted[valid]
    within = None if counts is None else counts[:, valid]  # same sentences, in the same order
    types = np.array([condition_type(row.condition) for row in rows])[valid]
    before = None if original is None else original[valid]

    def figures(own: NDArray[np.bool_]) -> dict[str, Any]:
        entry = {"spearman": hundred(spearman(gold[own], scores[own])), "pairs": int(own.sum())}
        if before is not None:
            entry["original"] = hundred(spearman(before[own], scores[own]))
            entry["ceiling"] = hundred(spearman(before[own], gold[own]))
        return entry

    return {
        **figures(np.ones(len(gold), dtype=bool)),
        "pearson": hundred(pearson(gold, scores)),
        "left_out": int((~valid).sum()),
        "interval": None if within is None else interval(bootstrap_spearman(gold, scores, within)),
        "types": _by_type(types, figures),
    }


def _by_type(
    types: NDArray[np.str_], figures: Callable[[NDArray[np.bool_]], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Figures of the rows of each type of condition, the most frequent type first."""
    names, sizes = np.unique(types, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    return {str(names[at]): figures(types == names[at]) for at in order}


def _labels(rows: Sequence[ConditionalPair], split: str) -> NDArray[np.float64]:
    labels = [row.label for row in rows if row.label is not None]
    if len(labels) < len(rows):
        raise TertiumError(f"The {split} part of C-STS has rows without labels: nothing to score.")
    return np.array(labels)


def _values(
    rows: Sequence[ConditionalPair],
    gold: NDArray[np.float64],
    found: Measured,
    groups: Sequence[Any],
    counts: NDArray[np.int32] | None,
) -> dict[str, Any]:
    predicted = found.predicted
    moved = condition_sensitivity(gold, predicted, groups)
    types = np.array([condition_type(row.condition) for row in rows])

    def figures(own: NDArray[np.bool_]) -> dict[str, Any]:
        return {
            "spearman": hundred(spearman(gold[own], predicted[own])),
            "pearson": hundred(pearson(gold[own], predicted[own])),
            "pairs": int(own.sum()),
        }

    return {
        "spearman": found.agreement.spearman,
        "pearson": found.agreement.pearson,
        "pairs": found.agreement.pairs,
        "sentence_pairs": len(set(groups)),
        "interval": found.agreement.interval,
        "pearson_interval": None
        if counts is None
        else interval(bootstrap_pearson(gold, predicted, counts)),
        "sensitivity": {
            "movement": defined(moved.movement),
            "agreement": hundred(moved.agreement),
            "direction": hundred(moved.direction),
            "pairs": moved.pairs,
        },
        "types": _by_type(types, figures),
    }


def write_predictions(
    model: Model, path: Path, *, folder: Path | None, progress: bool | None = None
) -> int:
    """Write scores of C-STS's test split as ``{"0": 1.0, "1": 3.2, …}``; returns their number.

    Keys are the positions of rows in the file, from 0. For a model without conditions, scores are
    cosines mapped to the labels' scale: 1 for a cosine of 0 or less, 5 for a cosine of 1.

    Args:
        model: any model.
        path: a ``.json`` file.
        folder: benchmark folder.
        progress: False for no progress on standard error.
    """
    if path.suffix.lower() != ".json":
        raise TertiumError(f"{path}: predictions go to a .json file.")
    data = benchmarks.load("C-STS", split="test", folder=folder)
    triples = [(row.sentence1, row.sentence2, row.condition) for row in data.rows]
    found = EmbeddingCache(model, progress=progress).similarities(triples)
    if not model.takes_conditions:
        found = 1 + 4 * found.clip(0, 1)
    predictions = {str(at): round(float(score), 6) for at, score in enumerate(found)}
    write_text(path, json.dumps(predictions) + "\n")
    return len(predictions)
