"""The folder of a report: its page, figures and numbers, written whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertium.errors import TertiumError
from tertium.evaluation.provenance import Provenance
from tertium.files import atomic_folder, check_new_folder
from tertium.report.material import Material
from tertium.report.page import render, save_figure
from tertium.report.parts import Broken, Drawn, LeftOut, Section
from tertium.report.study import Study

__all__ = ["PAGE", "clear_figures", "earlier_figures", "report_numbers", "write_report"]

PAGE = "index.html"
NUMBERS = "report.json"


def report_numbers(
    studies: Sequence[Study],
    broken: Sequence[Broken],
    material: Material,
    sections: Sequence[Section],
    left_out: Sequence[LeftOut],
    drawn: Sequence[Drawn],
    provenance: Provenance,
) -> dict[str, Any]:
    """The documented JSON shape (docs/json.md)."""
    figures = [f"figures/{entry.name}.{kind}" for entry in drawn for kind in ("png", "svg")]
    return {
        "page": PAGE,
        "files": [PAGE, NUMBERS, *figures],
        "models": [
            {
                "name": one.name,
                "label": one.label,
                "kind": one.facts.kind,
                "pooling": one.facts.pooling,
                "dimension": one.facts.dimension,
                "scale": list(one.facts.scale),
                "sha256": one.facts.sha256,
                "seconds": round(one.seconds, 2),
            }
            for one in studies
        ],
        "broken": [
            {"model": entry.model, "while": entry.while_doing, "error": entry.error}
            for entry in broken
        ],
        "sets": [one.to_json() for one in material.sets],
        "sections": {section.key: section.numbers for section in sections},
        "left_out": [
            {"section": entry.section, "model": entry.model, "reason": entry.reason}
            for entry in left_out
        ],
        "provenance": provenance.to_json(),
    }


def write_report(
    output: Path,
    sections: Sequence[Section],
    drawn: Sequence[Drawn],
    numbers: dict[str, Any],
    *,
    labels: Sequence[str],
    broken: Sequence[Broken],
) -> None:
    """Draw the figures and write everything; the page itself takes its place last."""
    shown = ", ".join(labels)
    failed = ", ".join(dict.fromkeys(entry.model for entry in broken))
    with atomic_folder(output, last=PAGE) as temporary:
        pictures = {entry.name: save_figure(entry, temporary / "figures") for entry in drawn}
        page = render(
            sections,
            pictures,
            title=f"How alike? {shown}" if len(labels) <= 3 else f"How alike? {len(labels)} models",
            subtitle=f"A report on {shown}, {numbers['provenance']['date'][:10]}.",
            warning=f"Not all went well: see “What failed” for {failed}." if broken else None,
        )
        (temporary / PAGE).write_text(page, encoding="utf-8")
        text = json.dumps(numbers, ensure_ascii=False, allow_nan=False, indent=1)
        (temporary / NUMBERS).write_text(text + "\n", encoding="utf-8")


def earlier_figures(output: Path) -> set[str]:
    """Files of an earlier report in the same place; anything else there is not ours to touch."""
    record = output / NUMBERS
    if not record.is_file():
        check_new_folder(output)
        return set()
    try:
        files = json.loads(record.read_text(encoding="utf-8"))["files"]
    except (ValueError, LookupError, TypeError) as error:
        raise TertiumError(
            f"{record} is not of a report. Name another folder, or remove it."
        ) from error
    return {str(file) for file in files if str(file).startswith("figures/")}


def clear_figures(output: Path, stale: set[str]) -> None:
    """Figures that the new report does not have."""
    for file in stale:
        path = output / file
        if path.parent == output / "figures":
            path.unlink(missing_ok=True)
