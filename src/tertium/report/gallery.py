"""The section that shows where models and people disagree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tertium.report.parts import LeftOut, Section, Table
from tertium.report.sets import GradedSet
from tertium.report.study import Reading, Study

__all__ = ["gallery_section"]

_SHOWN = 5  # mistakes of each kind


def gallery_section(
    studies: Sequence[Study], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """The pairs on which models and people disagree most."""
    if main is None:
        reason = "no graded pairs without conditions: give --pairs FILE, or --data FOLDER."
        return None, [LeftOut("gallery", None, reason)]
    blocks: list[Table] = []
    numbers: dict[str, Any] = {"set": main.name}
    for study in studies:
        shown = [reading for reading in study.readings if main.name in reading.values]
        if not shown:
            continue
        reading = shown[-1]  # the score, where a model has one
        gap = _gap(main.gold, reading.values[main.name])
        order = np.argsort(gap, kind="stable")
        for name, places in (
            ("higher", [at for at in order[::-1][:_SHOWN] if gap[at] > 0]),
            ("lower", [at for at in order[:_SHOWN] if gap[at] < 0]),
        ):
            rows = [_row(main, reading, gap, int(at)) for at in places]
            caption = f"{reading.name}: pairs ranked {name} than people rank them."
            header = ["grade", reading.by, "places off", "one text", "the other"]
            blocks.append(Table(caption, header, rows, prose=frozenset({3, 4})))
            numbers.setdefault(reading.name, {})[name] = [
                {
                    "a": main.first[at],
                    "b": main.second[at],
                    "gold": float(main.gold[at]),
                    reading.by: float(reading.values[main.name][at]),
                    "gap": float(gap[at]),
                }
                for at in places
            ]
    if not blocks:
        return None, [LeftOut("gallery", None, "no model here takes pairs without conditions.")]
    lead = (
        f"Pairs of {main.name} whose rank by the model is furthest from their rank by people. "
        "“Places off” is the difference of the two ranks as a share of all pairs. Some of these "
        "are mistakes of the model, some of the grades: read them before you decide."
    )
    return Section("gallery", "Largest disagreements", lead, tuple(blocks), numbers), []


def _gap(gold: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    ranks = [stats.rankdata(values) / len(values) for values in (predicted, gold)]
    return np.asarray(ranks[0] - ranks[1])


def _row(main: GradedSet, reading: Reading, gap: NDArray[np.float64], at: int) -> list[str]:
    value = reading.values[main.name][at]
    digits = 3 if reading.by == "cosine" else 2
    figures = [f"{main.gold[at]:g}", f"{value:.{digits}f}", f"{100 * gap[at]:+.0f} %"]
    return [*figures, main.first[at], main.second[at]]
