"""Sections about what goes on inside: the space, CLS energy, attention, views of a text."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tertium.analysis import (
    Place,
    alignment_uniformity_plane,
    attention_map_figure,
    dropped_figure,
    energy_against_scores,
    energy_curves,
    information_scatter,
    sink_figure,
)
from tertium.report.data import NO_PAIRS, GradedSet
from tertium.report.look import PartLook
from tertium.report.model_report import ModelReport
from tertium.report.page import Block, Drawn, LeftOut, Section, Table, rounded

__all__ = [
    "attention_section",
    "dropped_section",
    "energy_section",
    "plane_section",
    "views_section",
]


def plane_section(
    reports: Sequence[ModelReport], main: GradedSet | None, scores: Mapping[str, float]
) -> tuple[Section | None, list[LeftOut]]:
    """Alignment against uniformity."""
    measured = {report.label: report.geometry for report in reports if report.geometry is not None}
    left_out = [
        LeftOut("plane", report.label, "it gives no vectors.")
        for report in reports
        if report.geometry is None and main is not None
    ]
    if main is None or not measured:
        return None, [LeftOut("plane", None, NO_PAIRS)] if main is None else left_out
    places = {
        label: Place(values["alignment"], values["uniformity"], scores.get(label))
        for label, values in measured.items()
        if math.isfinite(values["alignment"]) and math.isfinite(values["uniformity"])
    }
    blocks: list[Block] = []
    if places:
        blocks.append(_plane(places, main))
    else:
        reason = f"{main.name} has no pair above four fifths of its scale."
        left_out.append(LeftOut("plane", None, reason))
    keys = ("alignment", "uniformity", "anisotropy", "effective_rank")
    blocks.append(
        Table(
            f"Measures of the space on {main.name}.",
            ["model", "alignment", "uniformity", "mean cosine", "effective rank", "of"],
            [
                [
                    report.label,
                    *(_number(report.geometry[key], 1 if key == keys[-1] else 3) for key in keys),
                    str(report.facts.dimension),
                ]
                for report in reports
                if report.geometry is not None
            ],
        )
    )
    numbers = {
        "set": main.name,
        "models": {
            label: {key: value if math.isfinite(value) else None for key, value in values.items()}
            for label, values in measured.items()
        },
    }
    lead = (
        "A good space puts what means the same in one place (alignment) and uses all of the "
        "sphere for the rest (uniformity). Both are better when smaller."
    )
    return Section("plane", "Alignment and uniformity", lead, tuple(blocks), numbers), left_out


def energy_section(
    reports: Sequence[ModelReport], scores: Mapping[str, float], texts: int
) -> tuple[Section | None, list[LeftOut]]:
    """How much of each layer's energy is in CLS."""
    energies = {
        part.label: part.energy
        for report in reports
        for part in report.parts
        if part.energy is not None
    }
    if not energies:
        return None, []
    means = {
        report.label: fmean(fmean(part.energy) for part in report.parts if part.energy)
        for report in reports
        if any(part.energy for part in report.parts)
    }
    caption = (
        "The norm of the first token's context against that of all other tokens, layer by layer, "
        f"the mean over {texts} texts. The higher, the more of what a layer computes is gathered "
        "in CLS. It matters to models whose pooling is CLS."
    )
    told = {name: f"{fmean(values):.3f}" for name, values in energies.items()}
    blocks: list[Block] = [
        Drawn(
            name="cls-energy",
            figure=energy_curves(energies),
            title="CLS energy of each layer",
            caption=caption,
            alt="Line per model. Mean of all layers: "
            + "; ".join(f"{name} {value}" for name, value in told.items())
            + ".",
            function="energy_curves",
        )
    ]
    points = {label: (mean, scores[label]) for label, mean in means.items() if label in scores}
    left_out = []
    if len(points) > 1:
        blocks.append(_against(points))
    else:
        reason = "CLS energy against STS needs two models with an STS figure and a transformer."
        left_out.append(LeftOut("energy", None, reason))
    numbers = {
        "layers": {name: list(values) for name, values in energies.items()},
        "mean": means,
        "against": {label: {"energy": x, "spearman": y} for label, (x, y) in points.items()},
        "texts": texts,
    }
    lead = (
        "JTCSE's observation is that models attend too little to the token they are pooled from, "
        "and that those which attend to it more do better on STS."
    )
    return Section("energy", "CLS energy", lead, tuple(blocks), numbers), left_out


def _plane(places: Mapping[str, Place], main: GradedSet) -> Drawn:
    return Drawn(
        name="alignment-uniformity",
        figure=alignment_uniformity_plane(places),
        title=f"The plane of alignment and uniformity, {main.name}",
        caption=(
            "A point is a model, in brackets its Spearman. The best place is the lower left: "
            "paraphrases close together, everything else spread out. A model far right has "
            "collapsed into a corner of its space. A low point there is no merit: if all texts "
            "are close, so are paraphrases."
        ),
        alt="Points. "
        + "; ".join(
            f"{name}: alignment {place.alignment:.3f}, uniformity {place.uniformity:.3f}"
            for name, place in places.items()
        )
        + ".",
        function="alignment_uniformity_plane",
        paper="JTCSE, Figure 7",
    )


def _against(points: Mapping[str, tuple[float, float]]) -> Drawn:
    return Drawn(
        name="cls-energy-against-sts",
        figure=energy_against_scores(points),
        title="CLS energy against STS",
        caption=(
            "A point is a model. JTCSE finds points of related models along a rising line. Two or "
            "three points show no trend, and models of other depth or pooling do not compare."
        ),
        alt="; ".join(
            f"{name}: energy {x:.3f}, Spearman {y:.1f}" for name, (x, y) in points.items()
        )
        + ".",
        function="energy_against_scores",
        paper="JTCSE, Figure 10",
    )


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "undefined"


def attention_section(reports: Sequence[ModelReport], sentence: str, texts: int) -> Section | None:
    """Attention maps of one sentence, and where attention drains to on many."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "texts": texts, "sinks": {}, "maps": {}}
    for number, part in _parts(reports):
        if part.maps is not None:
            caption = (
                f"{part.label}. A row is a token that looks, a column one that is looked at; "
                "yellow is much, on a scale of square roots. A bright column is a sink: tokens "
                "look there for want of anything better. JTCSE finds it under separators and final "
                "punctuation (bold, reddish); with other models it is the first token."
            )
            blocks.append(
                Drawn(
                    name=f"attention-maps-{number}",
                    figure=attention_map_figure(part.maps),
                    title=f"Attention of each layer, {part.label}",
                    caption=caption,
                    alt=f"A heat map for each of {len(part.maps.maps)} layers on “{sentence}”.",
                    function="attention_map_figure",
                    paper="JTCSE, Figure 9",
                )
            )
            numbers["maps"][part.label] = {
                "tokens": list(part.maps.tokens),
                "layers": [[rounded(row) for row in layer] for layer in part.maps.maps.tolist()],
            }
        if part.sinks is not None:
            last = dict(zip(part.sinks.roles, part.sinks.received[-1].tolist(), strict=True))
            told = ", ".join(f"{role} {100 * share:.0f} %" for role, share in last.items())
            blocks.append(
                Drawn(
                    name=f"attention-sinks-{number}",
                    figure=sink_figure(part.sinks),
                    title=f"Where attention goes, {part.label}",
                    caption=(
                        f"{part.label}, the mean over {texts} texts, all heads and all tokens that "
                        "look. Dotted: the share that each kind would get if attention were even. "
                        "A line far above its dotted one is a sink."
                    ),
                    alt=f"Lines over layers. In the last layer: {told}.",
                    function="sink_figure",
                )
            )
            numbers["sinks"][part.label] = {
                "roles": [str(role) for role in part.sinks.roles],
                "received": [rounded(row) for row in part.sinks.received.tolist()],
                "even": rounded(part.sinks.tokens.tolist()),
            }
    if not blocks:
        return None
    lead = (
        f"The maps show one sentence, “{sentence}”, and the lines below them many. Attention tells "
        "where a layer looked, not why the model decided as it did."
    )
    return Section("attention", "Attention and its sinks", lead, tuple(blocks), numbers)


def views_section(reports: Sequence[ModelReport], texts: int) -> Section | None:
    """Whether two dropout views of a text attend alike."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"texts": texts, "information": {}}
    for number, part in _parts(reports):
        if part.information is not None:
            found = part.information
            same, other = found.positive_information.mean(), found.negative_information.mean()
            blocks.append(
                Drawn(
                    name=f"attention-information-{number}",
                    figure=information_scatter(found),
                    title=f"Meaning and structure of two views, {part.label}",
                    caption=(
                        f"{part.label}. A point is a pair of views under dropout: of the same "
                        "text, or of two. Across, their cosine; up, how much the attention of "
                        "one tells of that of the other. Two clouds far apart in height: "
                        "attention by itself tells the same text from another."
                    ),
                    alt=f"Two clouds. Mean information {same:.2f} nats for the same text, "
                    f"{other:.2f} for two texts.",
                    function="information_scatter",
                    paper="miCSE, Figure 1",
                )
            )
            numbers["information"][part.label] = {
                "same": float(same),
                "different": float(other),
                "points": {
                    "same": [
                        rounded(found.positive_cosines.tolist()),
                        rounded(found.positive_information.tolist()),
                    ],
                    "different": [
                        rounded(found.negative_cosines.tolist()),
                        rounded(found.negative_information.tolist()),
                    ],
                },
            }
        if part.histograms is not None:
            blocks.append(
                Drawn(
                    name=f"attention-histograms-{number}",
                    figure=part.histograms,
                    title=f"Joint attention of two views, {part.label}",
                    caption=(
                        f"{part.label}. A panel per slice of upper layers: log attention in one "
                        "view against the other; yellow is many positions. On the diagonal both "
                        "views attend alike. A bend or a second cloud is where the formula of "
                        "attention mutual information is only an approximation."
                    ),
                    alt="Joint histograms of log attention, slice by slice.",
                    function="attention_histograms",
                    paper="miCSE, Figure 6",
                )
            )
    if not blocks:
        return None
    lead = (
        f"Each of {texts} texts is read twice with the model's own dropout. Whether the two views "
        "attend alike is what miCSE's attention term works on."
    )
    return Section("views", "Two views of a text", lead, tuple(blocks), numbers)


def dropped_section(reports: Sequence[ModelReport], sentence: str) -> Section | None:
    """Which tokens attention-driven dropout would leave out."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "models": {}}
    for number, part in _parts(reports):
        if part.dropped is None:
            continue
        told = "; ".join(
            f"{name}: {', '.join(step.token for step in found.steps)}"
            for name, found in part.dropped.items()
        )
        blocks.append(
            Drawn(
                name=f"dropped-{number}",
                figure=dropped_figure(part.dropped),
                title=f"What would go, {part.label}",
                caption=(
                    f"{part.label}. Bars: attention that a token receives over all layers, by "
                    "ADD's two aggregations. Numbers: the order in which tokens would go. If "
                    "words that carry the meaning go first, this view will not do with this model."
                ),
                alt=f"Bars per token. Dropped first: {told}.",
                function="dropped_figure",
                paper="ADD, the example of naive aggregation",
            )
        )
        numbers["models"][part.label] = {
            name: {
                "tokens": list(found.tokens),
                "scores": rounded(found.scores),
                "dropped": [{"token": step.token, "left": step.text} for step in found.steps],
            }
            for name, found in part.dropped.items()
        }
    if not blocks:
        return None
    lead = (
        "Attention-driven dropout makes a second view of a sentence by leaving out the tokens that "
        f"receive least attention. On “{sentence}”:"
    )
    title = "What attention would leave out"
    return Section("dropped", title, lead, tuple(blocks), numbers)


def _parts(reports: Sequence[ModelReport]) -> list[tuple[int, PartLook]]:
    return list(enumerate((part for report in reports for part in report.parts), 1))
