"""The sections of a page, in order."""

from collections.abc import Mapping, Sequence

from tertium.report.agreement import calibration_section, scatter_section
from tertium.report.attention import attention_section, dropped_section, views_section
from tertium.report.conditions import conditions_section
from tertium.report.gallery import gallery_section
from tertium.report.look import VIEWED_TEXTS
from tertium.report.material import Material
from tertium.report.overview import models_section
from tertium.report.parts import LeftOut, Section
from tertium.report.result_section import results_section
from tertium.report.results import AVERAGE, Figures
from tertium.report.run_section import runs_section
from tertium.report.space import energy_section, plane_section
from tertium.report.study import Study

__all__ = ["contents"]


def contents(
    studies: list[Study],
    material: Material,
    figures: dict[str, list[Figures]],
    sentence: str,
) -> tuple[list[Section], list[LeftOut]]:
    """All sections that there is something to say in, and why the others are not there."""
    main, sets, count = material.main, material.sets, len(material.texts)
    scores = _scores(figures, [one.name for one in sets if one.conditions is None])
    made: list[tuple[Section | None, list[LeftOut]]] = [
        (models_section(studies, scores), []),
        results_section(figures, sets),
        scatter_section(studies, main),
        plane_section(studies, main, scores),
        calibration_section(studies, sets, main),
        (attention_section(studies, sentence, count), []),
        energy_section(studies, scores, count),
        (views_section(studies, min(count, VIEWED_TEXTS)), []),
        (dropped_section(studies, sentence), []),
        conditions_section(studies, sets),
        runs_section(material.runs),
        gallery_section(studies, main),
    ]
    left_out = [
        *material.left_out,
        *(entry for _, entries in made for entry in entries),
        *(entry for one in studies for entry in one.left_out),
    ]
    return [section for section, _ in made if section is not None], left_out


def _scores(figures: Mapping[str, list[Figures]], plain: Sequence[str]) -> dict[str, float]:
    """Each model's one figure: the average over sets without conditions, or the only one."""
    place = AVERAGE if AVERAGE in figures else next(iter(plain), None)
    entries = [] if place is None else figures[place]
    return {entry.reading: entry.spearman for entry in entries if entry.spearman is not None}
