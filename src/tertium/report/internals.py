"""Sections on the inside of models: embedding space, CLS energy, attention, views of a text."""

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
from tertium.report.model_report import EncoderLook, ModelReport
from tertium.report.page import Block, Drawn, LeftOut, Section, Table, alt_text, rounded

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
        LeftOut("plane", report.label, "it has no embeddings.")
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
    return Section.of("plane", tuple(blocks), numbers), left_out


def energy_section(
    reports: Sequence[ModelReport], scores: Mapping[str, float], texts: int
) -> tuple[Section | None, list[LeftOut]]:
    """Share of each layer's energy in CLS."""
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
    blocks: list[Block] = [
        Drawn.of(
            "cls-energy",
            energy_curves(energies),
            alt=alt_text(
                "Line per model. Mean of all layers: ",
                (f"{name} {fmean(values):.3f}" for name, values in energies.items()),
            ),
            texts=texts,
        )
    ]
    points = {label: (mean, scores[label]) for label, mean in means.items() if label in scores}
    left_out = []
    if len(points) > 1:
        blocks.append(_against(points))
    else:
        reason = "CLS energy against STS needs two transformer models with an STS score."
        left_out.append(LeftOut("energy", None, reason))
    numbers = {
        "layers": {name: list(values) for name, values in energies.items()},
        "mean": means,
        "against": {label: {"energy": x, "spearman": y} for label, (x, y) in points.items()},
        "texts": texts,
    }
    return Section.of("energy", tuple(blocks), numbers), left_out


def _plane(places: Mapping[str, Place], main: GradedSet) -> Drawn:
    return Drawn.of(
        "alignment-uniformity",
        alignment_uniformity_plane(places),
        alt=alt_text(
            "Points. ",
            (
                f"{name}: alignment {place.alignment:.3f}, uniformity {place.uniformity:.3f}"
                for name, place in places.items()
            ),
        ),
        set=main.name,
    )


def _against(points: Mapping[str, tuple[float, float]]) -> Drawn:
    return Drawn.of(
        "cls-energy-against-sts",
        energy_against_scores(points),
        alt=alt_text(
            "", (f"{name}: energy {x:.3f}, Spearman {y:.1f}" for name, (x, y) in points.items())
        ),
    )


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "undefined"


def attention_section(reports: Sequence[ModelReport], sentence: str, texts: int) -> Section | None:
    """Attention maps of one sentence, and attention sinks on many."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "texts": texts, "sinks": {}, "maps": {}}
    for number, part in _parts(reports):
        if part.maps is not None:
            blocks.append(
                Drawn.of(
                    "attention-maps",
                    attention_map_figure(part.maps),
                    number=number,
                    alt=f"A heat map for each of {len(part.maps.maps)} layers on “{sentence}”.",
                    label=part.label,
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
                Drawn.of(
                    "attention-sinks",
                    sink_figure(part.sinks),
                    number=number,
                    alt=f"Lines over layers. In the last layer: {told}.",
                    label=part.label,
                    texts=texts,
                )
            )
            numbers["sinks"][part.label] = {
                "roles": [str(role) for role in part.sinks.roles],
                "received": [rounded(row) for row in part.sinks.received.tolist()],
                "even": rounded(part.sinks.tokens.tolist()),
            }
    if not blocks:
        return None
    return Section.of("attention", tuple(blocks), numbers, sentence=sentence)


def views_section(reports: Sequence[ModelReport], texts: int) -> Section | None:
    """Similarity of the attention of two dropout views."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"texts": texts, "information": {}}
    for number, part in _parts(reports):
        if part.information is not None:
            found = part.information
            same, other = found.positive_information.mean(), found.negative_information.mean()
            blocks.append(
                Drawn.of(
                    "attention-information",
                    information_scatter(found),
                    number=number,
                    alt=(
                        f"Two clouds. Mean information {same:.2f} nats for the same text, "
                        f"{other:.2f} for two texts."
                    ),
                    label=part.label,
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
                Drawn.of(
                    "attention-histograms",
                    part.histograms,
                    number=number,
                    alt="Joint histograms of log attention, slice by slice.",
                    label=part.label,
                )
            )
    if not blocks:
        return None
    return Section.of("views", tuple(blocks), numbers, texts=texts)


def dropped_section(reports: Sequence[ModelReport], sentence: str) -> Section | None:
    """Which tokens attention-driven dropout would drop."""
    blocks: list[Block] = []
    numbers: dict[str, Any] = {"sentence": sentence, "models": {}}
    for number, part in _parts(reports):
        if part.dropped is None:
            continue
        told = (
            f"{name}: {', '.join(step.token for step in found.steps)}"
            for name, found in part.dropped.items()
        )
        blocks.append(
            Drawn.of(
                "dropped",
                dropped_figure(part.dropped),
                number=number,
                alt=alt_text("Bars per token. Dropped first: ", told),
                label=part.label,
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
    return Section.of("dropped", tuple(blocks), numbers, sentence=sentence)


def _parts(reports: Sequence[ModelReport]) -> list[tuple[int, EncoderLook]]:
    return list(enumerate((part for report in reports for part in report.parts), 1))
