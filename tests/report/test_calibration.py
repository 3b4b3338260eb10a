from pathlib import Path

import numpy as np
import pytest

from tertium.report.data import GradedSet, read_own
from tertium.report.grades import calibration_section
from tertium.report.model_report import ModelReport, Scoring
from tertium.report.page import LeftOut, Note, Section
from tests.recipes.toys import toy_pairs


def section_of(
    one: GradedSet, scale: tuple[float, float] = (0.0, 5.0)
) -> tuple[Section | None, list[LeftOut]]:
    values = {one.name: np.linspace(*scale, len(one.gold))}
    scoring = Scoring("m (score)", "score", values, scale)
    report = ModelReport("m", "m", facts=None, scorings=[scoring])  # type: ignore[arg-type]
    return calibration_section([report], [one], one)


def own(tmp_path: Path, *grades: float, scale: tuple[float, float] | None = None) -> GradedSet:
    (one,) = read_own([toy_pairs(tmp_path / "own.tsv", *grades)], limit=99, seed=0, scale=scale)
    return one


@pytest.mark.parametrize("grades", [(0, 2, 4), (1, 3, 5), (0, 0.5, 1), (0, 5, 7)])
def test_grades_on_another_scale_are_not_called_calibrated(
    grades: tuple[float, ...], tmp_path: Path
) -> None:
    section, (entry,) = section_of(own(tmp_path, *grades))
    assert section is None and "the model grades from 0 to 5" in entry.reason
    assert f"graded from {min(grades):g} to {max(grades):g}" in entry.reason
    assert entry.reason.endswith("add --scale 0,5.")


def test_grades_that_span_the_scale_are_taken_for_it_and_that_is_said(tmp_path: Path) -> None:
    section, left_out = section_of(own(tmp_path, 0, 2.5, 4.8))
    assert section is not None and not left_out
    (note,) = [block for block in section.blocks if isinstance(block, Note)]
    assert "own.tsv: no scale was given" in note.text


def test_a_stated_scale_decides(tmp_path: Path) -> None:
    section, left_out = section_of(own(tmp_path, 1, 3, 4, scale=(0.0, 5.0)))
    assert section is not None and not left_out
    assert not any(isinstance(block, Note) for block in section.blocks)
    section, (entry,) = section_of(own(tmp_path, 0, 2, 4, scale=(0.0, 4.0)))
    assert section is None and "graded from 0 to 4" in entry.reason
