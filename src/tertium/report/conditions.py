"""The section about models that take conditions."""

import math
from collections.abc import Sequence
from typing import Any

from tertium.data.overlap import pair_key
from tertium.evaluation.conditions import condition_sensitivity
from tertium.explain.focus_figure import focus_figure
from tertium.report.parts import Block, Drawn, LeftOut, Section, Table, rounded
from tertium.report.sets import GradedSet
from tertium.report.study import Study

__all__ = ["conditions_section"]


def conditions_section(
    studies: Sequence[Study], sets: Sequence[GradedSet]
) -> tuple[Section | None, list[LeftOut]]:
    """Whether scores heed conditions, and how conditions move attention."""
    graders = [study for study in studies if study.facts.kind == "conditional"]
    if not graders:
        reason = "no model here takes conditions."
        return None, [LeftOut("conditions", None, reason)]
    triples = [one for one in sets if one.conditions is not None]
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sensitivity": {}, "focus": []}
    left_out: list[LeftOut] = []
    if triples:
        table, numbers["sensitivity"] = _sensitivity(studies, triples)
        blocks.append(table)
    else:
        reason = (
            "no graded triples: give --pairs FILE with a column condition, or --data FOLDER with "
            "C-STS."
        )
        left_out += [LeftOut("results", study.label, reason) for study in graders]
    shown = [entry for study in graders for entry in study.reallocations]
    for number, entry in enumerate(shown, 1):
        a, b, condition = entry.triple
        blocks.append(
            Drawn(
                name=f"focus-{number}",
                figure=focus_figure(entry.found),
                title=f"Attention as to “{condition}”, {entry.label}",
                caption=(
                    f"{entry.label}: “{a}” and “{b}”, as to: {condition}. Left, attention of the "
                    "last layer; right, as the condition reallocates it. Darker is more. Words "
                    "that exchange most attention with the condition are framed: they should gain "
                    "from left to right."
                ),
                alt="Two heat maps between words. Marked: "
                + ", ".join(entry.found.words[at] for at in entry.found.marked)
                + ".",
                function="focus_figure",
                paper="SEAVER, Figures 4 and 6 to 8",
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
    lead = (
        "The same two texts can be alike in one respect and not in another. These figures tell "
        "whether a model's score moves when only the condition changes, and the right way."
    )
    if not blocks:
        return None, left_out
    return Section("conditions", "Conditions", lead, tuple(blocks), numbers), left_out


def _sensitivity(
    studies: Sequence[Study], triples: Sequence[GradedSet]
) -> tuple[Table, dict[str, Any]]:
    rows: list[list[str]] = []
    numbers: dict[str, Any] = {}
    for one in triples:
        groups = [pair_key(a, b) for a, b in one.pairs]
        for study in studies:
            for reading in study.readings:
                if one.name not in reading.values:
                    continue
                found = condition_sensitivity(one.gold, reading.values[one.name], groups)
                values = (found.movement, 100 * found.agreement, 100 * found.direction)
                cells = [f"{v:.2f}" if math.isfinite(v) else "undefined" for v in values]
                rows.append([one.name, reading.name, f"{found.pairs:,}", *cells])
                keys = ("movement", "agreement", "direction")
                numbers.setdefault(one.name, {})[reading.name] = {
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
