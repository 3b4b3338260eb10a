"""Sections on scores and grades: scatter, calibration, conditions, largest disagreements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.analysis import Calibration, calibration, calibration_figure, gold_scatter
from tertium.data.overlap import pair_key
from tertium.evaluation.metrics import ranks, spearman
from tertium.evaluation.tasks.csts import condition_sensitivity
from tertium.explain.pictures import focus_figure
from tertium.report.data import NO_PAIRS, GradedSet
from tertium.report.model_report import ModelReport, Scoring
from tertium.report.page import Block, Drawn, LeftOut, Note, Section, Table, alt_text, rounded

__all__ = [
    "calibration_section",
    "conditions_section",
    "contrast_section",
    "gallery_section",
    "scatter_section",
]

_MARGIN = 0.1  # share of the model's scale that observed grades may leave free at either end


def scatter_section(
    reports: Sequence[ModelReport], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """Cosine against grade."""
    by_cosine = _on(reports, main, by="cosine")
    if main is None or not by_cosine:
        reason = NO_PAIRS if main is None else "no model here has embeddings."
        return None, [LeftOut("scatter", None, reason)]
    found = {scoring.name: scoring.values[main.name] for scoring in by_cosine}
    correlations = {name: spearman(main.gold, values) for name, values in found.items()}
    drawn = Drawn.of(
        "cosine-against-gold",
        gold_scatter(main.gold, found, correlations=correlations),
        alt=alt_text(
            f"Scatter plots of {len(main.gold):,} pairs. Spearman: ",
            (f"{name} {100 * value:.1f}" for name, value in correlations.items()),
        ),
        set=main.name,
    )
    numbers = {
        "set": main.name,
        "gold": main.gold.tolist(),
        "cosine": {name: values.round(5).tolist() for name, values in found.items()},
    }
    return Section.of("scatter", (drawn,), numbers, set=main.name), []


def calibration_section(
    reports: Sequence[ModelReport], sets: Sequence[GradedSet], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """How well scores match grades."""
    found: dict[str, Calibration] = {}
    left_out: list[LeftOut] = []
    assumed: set[str] = set()
    for report in reports:
        scored = [scoring for scoring in report.scorings if scoring.by == "score"]
        if not scored:
            reason = "its score is a cosine, not a grade: there is nothing to calibrate."
            left_out.append(LeftOut("calibration", report.label, reason))
            continue
        one = _set_for(scored[0], sets, main)
        if one is None:
            left_out.append(LeftOut("calibration", report.label, "no graded data it can score."))
            continue
        mismatch = _other_scale(one, scored[0].scale)
        if mismatch is not None:
            left_out.append(LeftOut("calibration", report.label, mismatch))
            continue
        if not one.stated:
            assumed.add(one.name)
        name = f"{scored[0].name}, {one.name}"
        found[name] = calibration(one.gold, scored[0].values[one.name], scale=scored[0].scale)
    if not found:
        return None, left_out
    drawn = Drawn.of(
        "calibration",
        calibration_figure(found),
        alt=alt_text(
            "Calibration curves. Mean error: ",
            (f"{name} {measured.error:.2f}" for name, measured in found.items()),
        ),
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
    blocks: list[Block] = [drawn, table]
    if assumed:
        names = " and ".join(sorted(assumed))
        text = f"{names}: no scale was given (--scale), so the model's is assumed."
        blocks.append(Note(text))
    return Section.of("calibration", tuple(blocks), numbers), left_out


def _other_scale(one: GradedSet, scale: tuple[float, float]) -> str | None:
    """Why a set's grades are not on the model's scale; None if they seem to be."""
    (low, high), (least, most) = scale, one.scale
    margin = 0.0 if one.stated else _MARGIN * (high - low)
    if low <= least <= low + margin and high - margin <= most <= high:
        return None
    remedy = "" if one.stated else f" If its scale is the model's, add --scale {low:g},{high:g}."
    return (
        f"{one.name} is graded from {least:g} to {most:g}, but the model grades from {low:g} to "
        f"{high:g}.{remedy}"
    )


def _on(reports: Sequence[ModelReport], main: GradedSet | None, *, by: str) -> list[Scoring]:
    return [
        scoring
        for report in reports
        for scoring in report.scorings
        if main is not None and scoring.by == by and main.name in scoring.values
    ]


def _set_for(
    scoring: Scoring, sets: Sequence[GradedSet], main: GradedSet | None
) -> GradedSet | None:
    """The main set, or the first that the model takes."""
    order = [*([main] if main is not None else []), *sets]
    return next((one for one in order if one.name in scoring.values), None)


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


def contrast_section(reports: Sequence[ModelReport]) -> Section | None:
    """Which small changes of meaning the models hear."""
    measured = {one.label: one.contrast for one in reports if one.contrast is not None}
    if not measured:
        return None
    first = next(iter(measured.values()))
    rows = [
        [kind, str(about["items"]), *(_right(found["kinds"][kind]) for found in measured.values())]
        for kind, about in first["kinds"].items()
    ]
    rows.append(["all", str(first["items"]), *map(_right, measured.values())])
    table = Table("Contrasts that a model has right, in %.", ["kind", "items", *measured], rows)
    return Section.of("contrast", (table,), measured)


def _right(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['accuracy']:.1f} ({low:.0f} to {high:.0f})"


def conditions_section(
    reports: Sequence[ModelReport], sets: Sequence[GradedSet]
) -> tuple[Section | None, list[LeftOut]]:
    """Whether scores follow conditions, and how conditions move attention."""
    graders = [report for report in reports if report.facts.kind == "conditional"]
    if not graders:
        reason = "no model here takes conditions."
        return None, [LeftOut("conditions", None, reason)]
    triples = [one for one in sets if one.conditions is not None]
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sensitivity": {}, "focus": []}
    left_out: list[LeftOut] = []
    if triples:
        table, numbers["sensitivity"] = _sensitivity(reports, triples)
        blocks.append(table)
    else:
        reason = (
            "no graded triples: give --pairs FILE with a column condition, or --data FOLDER with "
            "C-STS."
        )
        left_out += [LeftOut("results", report.label, reason) for report in graders]
    shown = [entry for report in graders for entry in report.reallocations]
    for number, entry in enumerate(shown, 1):
        a, b, condition = entry.triple
        marked = [entry.found.words[at] for at in entry.found.marked]
        blocks.append(
            Drawn.of(
                "focus",
                focus_figure(entry.found),
                number=number,
                alt=f"Two heat maps between words. Marked: {', '.join(marked)}.",
                condition=condition,
                label=entry.label,
                a=a,
                b=b,
            )
        )
        numbers["focus"].append(
            {
                "model": entry.label,
                "triple": list(entry.triple),
                "words": list(entry.found.words),
                "marked": list(entry.found.marked),
                "relevance": rounded(entry.found.relevance.tolist()),
            }
        )
    if not blocks:
        return None, left_out
    return Section.of("conditions", tuple(blocks), numbers), left_out


def _sensitivity(
    reports: Sequence[ModelReport], triples: Sequence[GradedSet]
) -> tuple[Table, dict[str, Any]]:
    rows: list[list[str]] = []
    numbers: dict[str, Any] = {}
    for one in triples:
        groups = [pair_key(a, b) for a, b in one.pairs]
        for report in reports:
            for scoring in report.scorings:
                if one.name not in scoring.values:
                    continue
                found = condition_sensitivity(one.gold, scoring.values[one.name], groups)
                values = (found.movement, 100 * found.agreement, 100 * found.direction)
                cells = [f"{v:.2f}" if math.isfinite(v) else "undefined" for v in values]
                rows.append([one.name, scoring.name, f"{found.pairs:,}", *cells])
                keys = ("movement", "agreement", "direction")
                numbers.setdefault(one.name, {})[scoring.name] = {
                    "pairs": found.pairs,
                    **{
                        key: value if math.isfinite(value) else None
                        for key, value in zip(keys, values, strict=True)
                    },
                }
    caption = (
        "The same sentences under two conditions. Movement: 1 is as much as the grades move, 0 a "
        "model that is blind to conditions. Direction: per cent of the differences with the right "
        "sign, 50 for a blind model."
    )
    header = ["set", "model", "differences", "movement", "agreement", "direction"]
    return Table(caption, header, rows, prose=frozenset({1})), numbers


_SHOWN = 5  # disagreements of each kind


def gallery_section(
    reports: Sequence[ModelReport], main: GradedSet | None
) -> tuple[Section | None, list[LeftOut]]:
    """The pairs on which models and people disagree most."""
    if main is None:
        return None, [LeftOut("gallery", None, NO_PAIRS)]
    blocks: list[Table] = []
    numbers: dict[str, Any] = {"set": main.name}
    for report in reports:
        shown = [scoring for scoring in report.scorings if main.name in scoring.values]
        if not shown:
            continue
        scoring = shown[-1]  # the score, if a model has one
        gap = _gap(main.gold, scoring.values[main.name])
        order = np.argsort(gap, kind="stable")
        for name, places in (
            ("higher", [at for at in order[::-1][:_SHOWN] if gap[at] > 0]),
            ("lower", [at for at in order[:_SHOWN] if gap[at] < 0]),
        ):
            rows = [_row(main, scoring, gap, int(at)) for at in places]
            caption = f"{scoring.name}: pairs ranked {name} than people rank them."
            header = ["grade", scoring.by, "places off", "one text", "the other"]
            blocks.append(Table(caption, header, rows, prose=frozenset({3, 4})))
            numbers.setdefault(scoring.name, {})[name] = [
                {
                    "a": main.first[at],
                    "b": main.second[at],
                    "gold": float(main.gold[at]),
                    scoring.by: float(scoring.values[main.name][at]),
                    "gap": float(gap[at]),
                }
                for at in places
            ]
    if not blocks:
        return None, [LeftOut("gallery", None, "no model here takes pairs without conditions.")]
    return Section.of("gallery", tuple(blocks), numbers, set=main.name), []


def _gap(gold: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((ranks(predicted) - ranks(gold)) / len(gold))


def _row(main: GradedSet, scoring: Scoring, gap: NDArray[np.float64], at: int) -> list[str]:
    value = scoring.values[main.name][at]
    digits = 3 if scoring.by == "cosine" else 2
    figures = [f"{main.gold[at]:g}", f"{value:.{digits}f}", f"{100 * gap[at]:+.0f} %"]
    return [*figures, main.first[at], main.second[at]]
