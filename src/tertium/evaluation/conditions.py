"""What a condition asks for, and whether a model heeds it."""

import itertools
import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["CONDITION_TYPES", "OTHER", "Sensitivity", "condition_sensitivity", "condition_type"]

OTHER = "other"

# Words that tell what a condition asks for. The first type with a word of the condition is its
# type: attributes stand before things, since "the color of the dog" asks for a color.
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
    """The key of ``CONDITION_TYPES`` whose words the condition has, else ``OTHER``.

    >>> condition_type("The color of the dog."), condition_type("The kind of dog.")
    ('color', 'animal')
    """
    words = set(re.findall(r"[a-z]+", condition.lower()))
    return next((name for name, known in CONDITION_TYPES.items() if known & words), OTHER)


@dataclass(frozen=True)
class Sensitivity:
    """How a model's score moves when only the condition changes.

    With ``p`` the difference of two scores of the same sentences under two conditions and ``g``
    that of the labels:

    Attributes:
        movement: mean |p| over mean |g|, each in standard deviations of all scores and all labels:
            0 for a model that is blind to conditions, 1 for one that moves as much as the labels.
        agreement: Σ p·g / √(Σ p² · Σ g²), from -1 to 1; NaN for a model that never moves.
        direction: share of the differences with p and g of one sign, where the labels differ; no
            movement counts half, so that a blind model has 0.5.
        pairs: how many differences there are.
    """

    movement: float
    agreement: float
    direction: float
    pairs: int


def condition_sensitivity(
    gold: ArrayLike, predicted: ArrayLike, groups: Sequence[Hashable]
) -> Sensitivity:
    """Compare rows of the same group, which are the same sentences under other conditions.

    Which of two conditions stands first does not matter, nor does the scale of the scores.
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
