"""How good the models are, and which of them is better."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.analysis import interval_figure
from tertium.analysis.grades import Estimate
from tertium.data.overlap import pair_key
from tertium.evaluation.metrics import (
    Agreement,
    agreement,
    bootstrap_counts,
    holm,
    interval,
    mean_of_all,
    paired_difference,
)
from tertium.evaluation.tasks.csts import clustered_counts
from tertium.report.data import GradedSet
from tertium.report.model_report import ModelReport
from tertium.report.page import Block, Drawn, LeftOut, Note, Section, Table

__all__ = ["AVERAGE", "Figures", "differences", "measure", "results_section"]

AVERAGE = "average"  # over all sets without conditions

Figures = dict[str, dict[str, Agreement]]  # by set or AVERAGE, then by the name of a scoring


def measure(
    reports: Sequence[ModelReport], sets: Sequence[GradedSet], *, resamples: int, seed: int
) -> Figures:
    """How all scorings agree with the grades of each set; the average is over plain pairs.

    All scorings see the same resamples of a set, so that their differences are paired.
    """
    found: Figures = {}
    for one in sets:
        counts = _counts(one, resamples=resamples, seed=seed)
        found[one.name] = {
            scoring.name: agreement(
                one.gold,
                scoring.values[one.name],
                counts=counts,
                seen=report.seen.get(one.name),
            )
            for report in reports
            for scoring in report.scorings
            if one.name in scoring.values
        }
    plain = [found[one.name] for one in sets if one.conditions is None]
    if len(plain) > 1:
        names = plain[0]
        found = {AVERAGE: {name: _average([p[name] for p in plain]) for name in names}, **found}
    return found


def differences(entries: Mapping[str, Agreement]) -> list[dict[str, Any]]:
    """Every two scorings with a figure, on the same resamples; p by Holm over the pairs."""
    found = []
    known = [(name, entry) for name, entry in entries.items() if entry.spearman is not None]
    for (one, first), (two, second) in itertools.combinations(known, 2):
        assert first.samples is not None and second.samples is not None
        gap = ((first.spearman or 0.0) - (second.spearman or 0.0)) / 100
        compared = paired_difference(gap, first.samples - second.samples)
        found.append({"models": [one, two], **compared})
    honest = holm([1.0 if entry["p_value"] is None else entry["p_value"] for entry in found])
    return [{**entry, "p_holm": p} for entry, p in zip(found, honest, strict=True)]


def results_section(
    figures: Figures, sets: Sequence[GradedSet]
) -> tuple[Section | None, list[LeftOut]]:
    """Tables and a picture of all correlations."""
    if not any(figures.values()):
        reason = "no graded pairs: give --pairs FILE, or --data FOLDER with benchmark sets."
        return None, [LeftOut("results", None, reason)]
    found = {place: differences(entries) for place, entries in figures.items()}
    blocks: list[Block] = [_table(figures), *_picture(figures)]
    if any(found.values()):
        blocks += _comparisons(found)
    drawn = [one for one in sets if len(one.gold) < one.whole]
    if drawn:
        names = ", ".join(f"{one.name} ({len(one.gold):,} of {one.whole:,})" for one in drawn)
        text = f"Sampled pairs only: {names}. These figures are not comparable with published ones."
        blocks.append(Note(text))
    numbers = {
        "figures": {
            place: {name: _plain(entry) for name, entry in entries.items()}
            for place, entries in figures.items()
        },
        "differences": found,
    }
    return Section.of("results", tuple(blocks), numbers), []


def _counts(one: GradedSet, *, resamples: int, seed: int) -> NDArray[np.int32]:
    if one.conditions is None:
        return bootstrap_counts(len(one.gold), resamples=resamples, seed=seed)
    groups = [pair_key(a, b) for a, b in one.pairs]
    return clustered_counts(groups, resamples=resamples, seed=seed)


def _average(entries: Sequence[Agreement]) -> Agreement:
    """The mean of correlations over sets, with the interval of that mean."""
    samples = np.mean([e.samples for e in entries if e.samples is not None], axis=0)
    cards = [entry.leak_free for entry in entries if entry.leak_free is not None]
    return Agreement(
        spearman=mean_of_all([entry.spearman for entry in entries]),
        pearson=None,
        pairs=sum(entry.pairs for entry in entries),
        interval=interval(samples),
        leak_free=None
        if not cards
        else {
            "spearman": mean_of_all([card["spearman"] for card in cards]),
            "pairs": sum(card["pairs"] for card in cards),
            "removed": sum(card["removed"] for card in cards),
        },
        samples=samples,
    )


def _plain(entry: Agreement) -> dict[str, Any]:
    clean = entry.leak_free
    return {
        "spearman": entry.spearman,
        "pearson": entry.pearson,
        "interval": entry.interval,
        "pairs": entry.pairs,
        "leak_free": clean and {"spearman": clean["spearman"], "seen": clean["removed"]},
    }


def _table(figures: Figures) -> Table:
    leaks = any(entry.leak_free for entries in figures.values() for entry in entries.values())
    header = ["set", "model", "pairs", "Spearman", "95 % interval", "Pearson"]
    header += ["without seen pairs", "seen"] if leaks else []
    rows = []
    for place, entries in figures.items():
        for name, entry in entries.items():
            row = [place, name, f"{entry.pairs:,}", _number(entry.spearman)]
            row += [_range(entry.interval), _number(entry.pearson) if place != AVERAGE else ""]
            if leaks:
                clean = entry.leak_free
                row += (
                    ["", ""]
                    if clean is None
                    else [_number(clean["spearman"]), f"{clean['removed']:,}"]
                )
            rows.append(row)
    caption = "Correlation with people's grades, by set and model."
    if leaks:
        caption += (
            " “Seen” counts pairs of the training and selection data that a model's card lists."
        )
    return Table(caption, header, rows, prose=frozenset({1}))


def _picture(figures: Figures) -> list[Block]:
    estimates: dict[str, dict[str, Estimate]] = {}
    for place, entries in figures.items():
        row: dict[str, Estimate] = {
            name: (entry.spearman, entry.interval)
            for name, entry in entries.items()
            if entry.spearman is not None
        }
        if row:
            estimates[place] = row
    if not estimates:
        return []
    drawn = Drawn.of(
        "results",
        interval_figure(estimates),
        alt=f"Points with intervals, a row for each of {len(estimates)} sets.",
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
