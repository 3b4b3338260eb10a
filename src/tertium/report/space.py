"""Sections about the space and about CLS: alignment and uniformity, energy, energy against STS."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from tertium.analysis import (
    Place,
    alignment_uniformity_plane,
    energy_against_scores,
    energy_curves,
)
from tertium.report.parts import Block, Drawn, LeftOut, Section, Table
from tertium.report.sets import GradedSet
from tertium.report.study import Study

__all__ = ["energy_section", "plane_section"]


def plane_section(
    studies: Sequence[Study], main: GradedSet | None, scores: Mapping[str, float]
) -> tuple[Section | None, list[LeftOut]]:
    """Alignment against uniformity."""
    measured = {study.label: study.geometry for study in studies if study.geometry is not None}
    left_out = [
        LeftOut("plane", study.label, "it gives no vectors.")
        for study in studies
        if study.geometry is None and main is not None
    ]
    if main is None or not measured:
        reason = "no graded pairs without conditions: give --pairs FILE, or --data FOLDER."
        return None, [LeftOut("plane", None, reason)] if main is None else left_out
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
                    study.label,
                    *(_number(study.geometry[key], 1 if key == keys[-1] else 3) for key in keys),
                    str(study.facts.dimension),
                ]
                for study in studies
                if study.geometry is not None
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
    studies: Sequence[Study], scores: Mapping[str, float], texts: int
) -> tuple[Section | None, list[LeftOut]]:
    """How much of each layer's energy is in CLS."""
    energies = {
        part.label: part.energy
        for study in studies
        for part in study.parts
        if part.energy is not None
    }
    if not energies:
        return None, []
    means = {
        study.label: fmean(fmean(part.energy) for part in study.parts if part.energy)
        for study in studies
        if any(part.energy for part in study.parts)
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
