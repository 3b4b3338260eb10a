"""The section that tells how good the models are, and which of them is better."""

from collections.abc import Sequence
from typing import Any

from tertium.analysis import interval_figure
from tertium.analysis.grades import Estimate
from tertium.report.parts import Block, Drawn, LeftOut, Note, Section, Table
from tertium.report.results import AVERAGE, Figures, differences
from tertium.report.sets import GradedSet

__all__ = ["results_section"]


def results_section(
    figures: dict[str, list[Figures]], sets: Sequence[GradedSet]
) -> tuple[Section | None, list[LeftOut]]:
    """Tables and a picture of all correlations."""
    if not any(figures.values()):
        reason = "no graded pairs: give --pairs FILE, or --data FOLDER with benchmark sets."
        return None, [LeftOut("results", None, reason)]
    found = {place: differences(entries) for place, entries in figures.items()}
    compared = any(found.values())
    blocks: list[Block] = [_table(figures), *_picture(figures)]
    if compared:
        blocks += _comparisons(found)
    drawn = [one for one in sets if len(one.gold) < one.whole]
    if drawn:
        names = ", ".join(f"{one.name} ({len(one.gold):,} of {one.whole:,})" for one in drawn)
        text = f"Drawn pairs only: {names}. These figures do not compare with published ones."
        blocks.append(Note(text))
    lead = (
        "Spearman's rank correlation of a model's cosine or score with the grades of people, times "
        "100, over all pairs of a set together. The interval holds 95 % of bootstrap samples of "
        "the pairs: another sample of pairs as large would mostly land inside it."
    )
    numbers = {
        "figures": {
            place: {entry.reading: entry.to_json() for entry in entries}
            for place, entries in figures.items()
        },
        "differences": found,
    }
    return Section("results", "Results", lead, tuple(blocks), numbers), []


def _table(figures: dict[str, list[Figures]]) -> Table:
    leaks = any(entry.seen is not None for entries in figures.values() for entry in entries)
    header = ["set", "model", "pairs", "Spearman", "95 % interval", "Pearson"]
    header += ["without seen pairs", "seen"] if leaks else []
    rows = []
    for place, entries in figures.items():
        for entry in entries:
            row = [place, entry.reading, f"{entry.pairs:,}", _number(entry.spearman)]
            row += [_range(entry.interval), _number(entry.pearson) if place != AVERAGE else ""]
            if leaks:
                known = entry.seen is not None
                row += [_number(entry.clean) if known else "", f"{entry.seen:,}" if known else ""]
            rows.append(row)
    caption = "Correlation with people's grades, by set and model."
    if leaks:
        caption += (
            " “Seen” counts pairs of the training and selection data that a model's card lists."
        )
    return Table(caption, header, rows, prose=frozenset({1}))


def _picture(figures: dict[str, list[Figures]]) -> list[Block]:
    estimates: dict[str, dict[str, Estimate]] = {}
    for place, entries in figures.items():
        row: dict[str, Estimate] = {}
        for entry in entries:
            if entry.spearman is not None:
                bounds = entry.interval
                row[entry.reading] = (
                    entry.spearman,
                    None if bounds is None else (bounds[0], bounds[1]),
                )
        if row:
            estimates[place] = row
    if not estimates:
        return []
    drawn = Drawn(
        name="results",
        figure=interval_figure(estimates),
        title="Correlations with their intervals",
        caption=(
            "A point is a model's correlation on a set, the line its 95 % interval. Overlapping "
            "lines do not yet mean that two models are alike, for they are measured on the same "
            "pairs: the tables of differences say that."
        ),
        alt=f"Points with intervals, a row for each of {len(estimates)} sets.",
        function="interval_figure",
    )
    return [drawn]


def _comparisons(found: dict[str, list[dict[str, Any]]]) -> list[Block]:
    first, *others = found
    header = ["set", "models", "difference", "95 % interval", "p", "p, Holm"]
    head = _difference_rows(first, found[first])
    blocks: list[Block] = [
        Note(
            "A difference is tested on the same bootstrap samples for both models. Where several "
            "pairs of models are compared, read Holm's p: it stays honest about asking often."
        ),
        Table(f"Differences between models, {first}.", header, head, prose=frozenset({1})),
    ]
    rest = [row for place in others for row in _difference_rows(place, found[place])]
    if rest:
        caption = "Differences between models, set by set."
        blocks.append(Table(caption, header, rest, prose=frozenset({1}), folded=True))
    return blocks


def _difference_rows(place: str, entries: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            place,
            f"{entry['models'][0]} against {entry['models'][1]}",
            f"{entry['difference']:+z.2f}",
            _range(entry["interval"]),
            "" if entry["p_value"] is None else f"{entry['p_value']:.3f}",
            f"{entry['p_holm']:.3f}",
        ]
        for entry in entries
    ]


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _range(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.2f} to {bounds[1]:.2f}"
