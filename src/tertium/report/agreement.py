"""Sections about scores and grades: cosine against grade, calibration."""

from collections.abc import Sequence
from typing import Any

from tertium.analysis import Calibration, calibration, calibration_figure, gold_scatter
from tertium.evaluation.metrics import spearman
from tertium.report.parts import Block, Drawn, LeftOut, Note, Section, Table
from tertium.report.sets import GradedSet
from tertium.report.study import Reading, Study

__all__ = ["calibration_section", "scatter_section"]

_MARGIN = 0.1  # of the model's scale that grades seen in a file may leave free at either end
_NO_PAIRS = "no graded pairs without conditions: give --pairs FILE, or --data FOLDER."


def scatter_section(
    studies: Sequence[Study], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """Cosine against grade."""
    by_cosine = _on(studies, main, by="cosine")
    if main is None or not by_cosine:
        reason = _NO_PAIRS if main is None else "no model here gives vectors."
        return None, [LeftOut("scatter", None, reason)]
    found = {reading.name: reading.values[main.name] for reading in by_cosine}
    correlations = {name: spearman(main.gold, values) for name, values in found.items()}
    drawn = Drawn(
        name="cosine-against-gold",
        figure=gold_scatter(main.gold, found, correlations=correlations),
        title=f"Cosine against grade, {main.name}",
        caption=(
            "A point is a pair; across, the grade that people gave it (also its colour), up, the "
            "model's cosine. A good model's cloud rises from left to right and is narrow. The "
            "black line joins medians: where it is flat, the model does not tell those grades "
            "apart. The height itself means nothing: cosines of two models do not compare."
        ),
        alt=_told(
            f"Scatter plots of {len(main.gold):,} pairs. Spearman: ",
            {name: f"{100 * value:.1f}" for name, value in correlations.items()},
        ),
        function="gold_scatter",
        paper="miCSE, Figure 5",
    )
    numbers = {
        "set": main.name,
        "gold": main.gold.tolist(),
        "cosine": {name: values.round(5).tolist() for name, values in found.items()},
    }
    lead = f"Every pair of {main.name}, as people and as models see it."
    return Section("scatter", "Cosine against grade", lead, (drawn,), numbers), []


def calibration_section(
    studies: Sequence[Study], sets: Sequence[GradedSet], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """Whether graded scores can be taken at their word."""
    found: dict[str, Calibration] = {}
    left_out: list[LeftOut] = []
    assumed: set[str] = set()
    for study in studies:
        scored = [reading for reading in study.readings if reading.by == "score"]
        if not scored:
            reason = "its score is a cosine, which is no grade: there is nothing to calibrate."
            left_out.append(LeftOut("calibration", study.label, reason))
            continue
        one = _set_for(scored[0], sets, main)
        if one is None:
            left_out.append(LeftOut("calibration", study.label, "no graded data that it takes."))
            continue
        mismatch = _other_scale(one, scored[0].scale)
        if mismatch is not None:
            left_out.append(LeftOut("calibration", study.label, mismatch))
            continue
        if not one.stated:
            assumed.add(one.name)
        name = f"{scored[0].name}, {one.name}"
        found[name] = calibration(one.gold, scored[0].values[one.name], scale=scored[0].scale)
    if not found:
        return None, left_out
    drawn = Drawn(
        name="calibration",
        figure=calibration_figure(found),
        title="Score against mean grade",
        caption=(
            "Pairs are put together by the score they got; a point is such a bin, the line "
            "through it the 95 % interval of its mean grade. On the dashed line a score of 3 means "
            "what people call a 3; above it the model is too strict, below it too generous. The "
            "bars count pairs: where there are few, a point says little."
        ),
        alt=_told(
            "Calibration curves. Mean error: ",
            {name: f"{measured.error:.2f}" for name, measured in found.items()},
        ),
        function="calibration_figure",
    )
    rows = [
        [name, f"{m.bias:+z.2f}", f"{m.error:.2f}", f"{100 * m.within_half:.0f} %"]
        for name, m in found.items()
    ]
    table = Table(
        "How far scores are from grades.",
        ["model and set", "score minus grade", "mean error", "at most half a point off"],
        rows,
    )
    numbers = {name: _plain(measured) for name, measured in found.items()}
    lead = "A correlation does not care for the scale. Whoever sets a threshold does."
    blocks: list[Block] = [drawn, table]
    if assumed:
        names = " and ".join(sorted(assumed))
        text = f"{names}: no scale is stated (--scale), so it is taken to be the model's."
        blocks.append(Note(text))
    return Section("calibration", "Calibration", lead, tuple(blocks), numbers), left_out


def _other_scale(one: GradedSet, scale: tuple[float, float]) -> str | None:
    """Why a set's grades are not on the model's scale; None if they are, or seem to be."""
    (low, high), (least, most) = scale, one.scale
    margin = 0.0 if one.stated else _MARGIN * (high - low)
    if low <= least <= low + margin and high - margin <= most <= high:
        return None
    remedy = "" if one.stated else f" If its scale is the model's, say --scale {low:g}-{high:g}."
    return (
        f"{one.name} is graded from {least:g} to {most:g}, and the model grades from {low:g} to "
        f"{high:g}.{remedy}"
    )


def _on(studies: Sequence[Study], main: GradedSet | None, *, by: str) -> list[Reading]:
    return [
        reading
        for study in studies
        for reading in study.readings
        if main is not None and reading.by == by and main.name in reading.values
    ]


def _set_for(
    reading: Reading, sets: Sequence[GradedSet], main: GradedSet | None
) -> GradedSet | None:
    """The main set, or the first that the model takes."""
    order = [*([main] if main is not None else []), *sets]
    return next((one for one in order if one.name in reading.values), None)


def _plain(measured: Calibration) -> dict[str, Any]:
    return {
        "bias": measured.bias,
        "error": measured.error,
        "within_half": measured.within_half,
        "bins": [
            {
                "low": b.low,
                "high": b.high,
                "pairs": b.pairs,
                "score": b.score,
                "gold": b.gold,
                "interval": None if b.interval is None else list(b.interval),
            }
            for b in measured.bins
        ],
    }


def _told(before: str, values: dict[str, str]) -> str:
    return before + "; ".join(f"{name} {value}" for name, value in values.items()) + "."
