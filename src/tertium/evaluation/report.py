"""Results with provenance, printed as tables and saved as JSON, Markdown or LaTeX."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tertium.evaluation.leaks import Excluded
from tertium.files import write_text
from tertium.hardware import default_threads, processor

__all__ = [
    "Provenance",
    "Report",
    "SuiteResult",
    "TaskResult",
    "current_command",
    "latex_table",
    "markdown_table",
]

_LIBRARIES = ("tertium", "sentence-transformers", "transformers", "torch", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Provenance:
    """Everything needed to reproduce a figure, and what leak-free figures exclude."""

    command: str
    seed: int
    seconds: float
    excluded: tuple[Excluded, ...] = ()
    precision: str = "float32"
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    python: str = field(default_factory=platform.python_version)
    versions: dict[str, str] = field(default_factory=lambda: {n: version(n) for n in _LIBRARIES})
    machine: str = field(default_factory=lambda: _machine())

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        excluded = ", ".join(map(str, self.excluded))
        leak_free = f"leak-free: without the pairs of {excluded}\n" if excluded else ""
        less = "" if self.precision == "float32" else f"{self.precision}, "
        return leak_free + (
            f"{self.command}\nseed {self.seed}, {less}{self.seconds:.1f} s, {self.date}, "
            f"{self.machine}\n"
            f"Python {self.python}, {versions}"
        )


def current_command() -> str:
    """The command line of this process, without the program's folder."""
    program = Path(sys.argv[0])
    name = program.name
    if name == "__main__.py":
        name = f"python -m {program.parent.name}"
    return " ".join([name, *map(_quoted, sys.argv[1:])])


def _quoted(argument: str) -> str:
    return f"'{argument}'" if any(c.isspace() for c in argument) else argument


def _machine() -> str:
    accelerator, threads = "no accelerator", default_threads()
    if "torch" in sys.modules:  # else nothing ran on it
        import torch

        threads = torch.get_num_threads()
        if torch.cuda.is_available():
            accelerator = torch.cuda.get_device_name()
    plural = "" if threads == 1 else "s"
    return f"{processor()}, {os.cpu_count()} cores, {threads} thread{plural}, {accelerator}"


@dataclass(frozen=True)
class TaskResult:
    """One task's figures.

    Attributes:
        task: name of the task.
        values: all figures, correlations and accuracies times 100; None if undefined.
        protocol: the protocol, in words.
        split: split of the data.
        pooling: the model's pooling.
        data: source, sha256 or revision of the data.
        seconds: time for scoring, and for encoding texts that no earlier task has.
    """

    task: str
    values: dict[str, Any]
    protocol: str
    split: str
    pooling: str | None
    data: dict[str, str | None]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.values,
            "protocol": self.protocol,
            "split": self.split,
            "pooling": self.pooling,
            "data": self.data,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class SuiteResult:
    """The tasks of one suite, and the average of their headline figures."""

    suite: str
    headline: str
    tasks: tuple[TaskResult, ...]
    average: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """``{"average": …, "tasks": {…}}``; a suite without an average gives its one task."""
        if self.average is None:
            return self.tasks[0].to_json()
        return {**self.average, "tasks": {task.task: task.to_json() for task in self.tasks}}

    def rows(self) -> list[list[str]]:
        """Header and one row per task, as text."""
        return _task_rows(self) if self.average is not None else _value_rows(self.tasks[0])

    def details(self) -> list[list[list[str]]]:
        """Further tables of conditional tasks, about conditions and their types."""
        tables = []
        for task in self.tasks:
            if "sensitivity" in task.values:
                tables.append(_sensitivity_rows(task.values["sensitivity"]))
            if "careful" in task.values or "revised" in task.values:
                tables.append(_careful_rows(task.values))
            if "types" in task.values:
                tables.append(_type_rows(task.values["types"]))
        return tables


@dataclass(frozen=True)
class Report:
    """The result of an evaluation."""

    model: str
    suites: tuple[SuiteResult, ...]
    provenance: Provenance

    def to_json(self) -> dict[str, Any]:
        """The documented JSON shape (docs/json.md)."""
        return {
            "model": self.model,
            "results": {suite.suite: suite.to_json() for suite in self.suites},
            "provenance": self.provenance.to_json(),
        }

    def to_markdown(self) -> str:
        """Tables, then the provenance as a code block."""
        parts = [f"## {self.model}"]
        for suite in self.suites:
            header, *rows = suite.rows()
            parts += [f"### {suite.suite}", "", markdown_table(header, rows)]
            for header, *rows in suite.details():
                parts += ["", markdown_table(header, rows)]
        return "\n".join([*parts, "", "```", str(self.provenance), "```", ""])

    def _repr_html_(self) -> str:
        """The display in a notebook: the tables, then the provenance."""
        parts = []
        for suite in self.suites:
            tables = [suite.rows(), *suite.details()]
            parts += [f"<h4>{escape(self.model)} · {escape(suite.suite)}</h4>"]
            parts += [html_table(header, rows) for header, *rows in tables]
        return "\n".join([*parts, f"<pre>{escape(str(self.provenance))}</pre>"])

    def to_latex(self) -> str:
        """A table for each suite, with the provenance as comments."""
        parts = [f"% {line}" for line in str(self.provenance).splitlines()]
        for suite in self.suites:
            tables = [suite.rows(), *suite.details()]
            caption = f"{self.model}, {suite.suite}"
            parts += [latex_table(header, rows, caption=caption) for header, *rows in tables]
        return "\n".join([*parts, ""])

    def save(self, path: Path) -> None:
        """Write JSON, Markdown or LaTeX, by the ending of ``path``."""
        writers = {".md": self.to_markdown, ".markdown": self.to_markdown, ".tex": self.to_latex}
        write = writers.get(path.suffix.lower(), self._to_json_text)
        write_text(path, write())

    def _to_json_text(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False, indent=2) + "\n"

    def __getitem__(self, suite: str) -> SuiteResult:
        results = {result.suite: result for result in self.suites}
        if suite not in results:
            raise KeyError(f"no suite {suite!r} in this report, which has {', '.join(results)}")
        return results[suite]

    def __str__(self) -> str:
        parts = []
        for suite in self.suites:
            header, *rows = suite.rows()
            parts += [f"{self.model} · {suite.suite}", _plain(header, rows), ""]
            for header, *rows in suite.details():
                parts += [_plain(header, rows), ""]
        return "\n".join([*parts, str(self.provenance)])


def _task_rows(suite: SuiteResult) -> list[list[str]]:
    """One row per task, with the columns that any task has, and the average."""
    values = [task.values for task in suite.tasks]
    size = "pairs" if "pairs" in values[0] else "examples"
    header = ["task", size, suite.headline, "95 % interval"]
    others = [key for key in ("pearson", "f1") if any(key in v for v in values)]
    leak_free = any("leak_free" in v for v in values)
    baseline = any("baseline" in v for v in values)
    header += [*others, *(["leak-free", "of pairs"] if leak_free else [])]
    header += ["against baseline", "p"] if baseline else []
    rows = []
    average = suite.average or {}
    for name, value in [*((t.task, t.values) for t in suite.tasks), ("average", average)]:
        row = [name, f"{value[size]:,}" if size in value else ""]
        row += [_number(value.get(suite.headline, value.get("average")))]
        row += [_interval(value.get("interval"))]
        row += [_number(value.get(key)) if key in value else "" for key in others]
        if leak_free:
            clean = value.get("leak_free", {})
            row += [_number(clean.get(suite.headline)) if clean else ""]
            row += [f"{clean['pairs']:,}" if "pairs" in clean else ""]
        if baseline:
            other = value.get("baseline", {})
            row += [_signed(other.get("difference")), _p(other.get("p_value"))]
        rows.append(row)
    return [header, *rows]


def _value_rows(task: TaskResult) -> list[list[str]]:
    rows = [["measure", "value"]]
    for key, value in task.values.items():
        if isinstance(value, int | float) or value is None:
            rows.append([key, f"{value:,}" if isinstance(value, int) else _number(value, 4)])
    return rows


def _sensitivity_rows(values: dict[str, Any]) -> list[list[str]]:
    header = ["two conditions, same sentences", "movement", "agreement", "direction"]
    figures = [_number(values[key]) for key in ("movement", "agreement", "direction")]
    return [header, [f"{values['pairs']:,} differences", *figures]]


def _careful_rows(values: dict[str, Any]) -> list[list[str]]:
    """Original and careful labels side by side on the rows with both, overall and by type."""
    header = ["on careful labels", "pairs", "left out", "spearman", "on original", "ceiling there"]
    rows = [header]
    for name, label in (("careful", "original conditions"), ("revised", "revised conditions")):
        found = values.get(name)
        if found is not None:
            rows.append([label, *_careful_cells(found, f"{found['left_out']:,}")])
    for name, found in values.get("careful", {}).get("types", {}).items():
        rows.append([f"  {name}", *_careful_cells(found, "")])
    return rows


def _careful_cells(found: dict[str, Any], left_out: str) -> list[str]:
    others = [_number(found[key]) if key in found else "" for key in ("original", "ceiling")]
    return [f"{found['pairs']:,}", left_out, _number(found["spearman"]), *others]


def _type_rows(types: dict[str, Any]) -> list[list[str]]:
    rows = [["condition asks for", "pairs", "spearman", "pearson"]]
    for name, values in types.items():
        figures = [_number(values[key]) for key in ("spearman", "pearson")]
        rows.append([name, f"{values['pairs']:,}", *figures])
    return rows


def _number(value: float | None, digits: int = 2) -> str:
    return "undefined" if value is None else f"{value:.{digits}f}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _plain(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with the first column left-aligned and the others right-aligned."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as HTML, all text escaped."""
    lines = [
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for tag, row in [("th", header), *(("td", row) for row in rows)]
    ]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {mark: f"\\{mark}" for mark in "&%$#_{}"}
_LATEX |= {"±": r"$\pm$", "·": r"$\cdot$", "≥": r"$\geq$", "≤": r"$\leq$"}
_LATEX |= {"\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--"}


def latex_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str | None = None
) -> str:
    r"""A LaTeX table for the package booktabs, aligned like :func:`markdown_table`.

    >>> print(latex_table(["model", "STS-B"], [["my_model", "84.5 ± 0.2"]]))
    \begin{tabular}{lr}
    \toprule
    model & STS-B \\
    \midrule
    my\_model & 84.5 $\pm$ 0.2 \\
    \bottomrule
    \end{tabular}
    """
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in (header, *rows)]
    table = [
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        lines[0],
        r"\midrule",
        *lines[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if caption is not None:
        around = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(caption)}}}"]
        table = [*around, *table, r"\end{table}"]
    return "\n".join(table)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
