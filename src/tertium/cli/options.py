"""Options that several commands share: each has one name, one help text and one check."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tertium.cli import checks
from tertium.cli.output import note

if TYPE_CHECKING:
    from tertium.corpus.rows import Source
    from tertium.data import columns as data_columns
    from tertium.data.shapes import Recognised
    from tertium.records.decision import Decision

__all__ = [
    "Column",
    "Columns",
    "Condition",
    "Corpus",
    "DataFolder",
    "DataOrHub",
    "DataShape",
    "Engine",
    "Evaluation",
    "IndexModel",
    "Jobs",
    "Json",
    "Method",
    "Model",
    "ModelArgument",
    "ModelNames",
    "NewFolder",
    "Overrides",
    "PairColumns",
    "Resume",
    "RunFolder",
    "SafeCells",
    "Scorer",
    "Seed",
    "StrictData",
    "StripHtml",
    "TableFile",
    "Texts",
    "TruncateDim",
    "TrustRemoteCode",
    "Weight",
    "fitted_threshold",
    "grouped",
    "parse_scale",
]

_MODEL = "Reserved name, folder or hub id"

# Models and what runs them.
Model = Annotated[str, typer.Option("--model", "-m", help=f"{_MODEL}.", callback=checks.model)]
ModelArgument = Annotated[str, typer.Argument(help=f"{_MODEL}.", callback=checks.model)]
ModelNames = Annotated[
    list[str], typer.Argument(help="Reserved names, folders or hub ids.", callback=checks.model)
]
Scorer = Annotated[
    str | None,
    typer.Option(
        *("--model", "-m"),
        help=f"{_MODEL} (default: sts; with conditions, conditional).",
        callback=checks.model,
    ),
]
IndexModel = Annotated[
    str | None,
    typer.Option(
        *("--model", "-m"),
        help="The model that built the index (default: loaded by its name).",
        callback=checks.model,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="torch, onnx, onnx-int8, openvino, openvino-int8, static, or auto (see tune).",
        callback=checks.engine,
    ),
]
TruncateDim = Annotated[
    int | None,
    typer.Option(min=1, help="Keep only the first N numbers of each vector.", metavar="N"),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run Python code that comes with the model. It can do anything that you can.",
    ),
]
Condition = Annotated[
    str | None,
    typer.Option("--on", metavar="CONDITION", help="Compare with respect to this condition."),
]
Weight = Annotated[
    float | None,
    typer.Option(
        help="Weight of the last model; the others share the rest of 1 (default: a plain sum)."
    ),
]

# Texts, tables and benchmark data.
Texts = Annotated[
    Path,
    typer.Argument(
        help="Text file with one text per line, or TSV, CSV, JSONL, Parquet.", callback=checks.file
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        help="Column of the texts; several, separated by commas, are joined (default: sentence, "
        "text, sentences or texts)."
    ),
]
StripHtml = Annotated[bool, typer.Option("--strip-html", help="Strip HTML markup from the texts.")]
DataFolder = Annotated[
    Path | None,
    typer.Option(help="Benchmark folder (default: TERTIUM_DATA).", callback=checks.data_folder),
]
DataOrHub = Annotated[
    Path | None,
    typer.Option(
        help="Benchmark folder (default: TERTIUM_DATA, else the hub).", callback=checks.data_folder
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="exact, hnsw (faster for millions of texts, may miss some), or auto: "
        "exact up to 1,000,000 texts.",
        callback=checks.method,
    ),
]

# Output.
TableFile = Annotated[
    Path, typer.Option("--output", "-o", help="File to write: .tsv, .csv or .jsonl.")
]
NewFolder = Annotated[
    Path,
    typer.Option(
        *("--output", "-o"),
        help="Folder to write; must not exist yet, or be empty.",
        callback=checks.new_folder,
    ),
]
RunFolder = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for all runs; finished ones are skipped.")
]
SafeCells = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe/--raw-cells",
        help="In .tsv and .csv, put ' before a text that a spreadsheet would run as a formula.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]

# Training and evaluation.
Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time, each in a process of its own.")]
Seed = Annotated[int, typer.Option(help="Random seed for sampling.")]
Overrides = Annotated[
    list[str], typer.Option("--set", help="Override a setting, as a.b=value; may be repeated.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume after an interruption, with the same settings.")
]
Evaluation = Annotated[
    bool, typer.Option(help="Evaluate on STS at the end, if benchmark data is found.")
]
StrictData = Annotated[
    bool,
    typer.Option("--strict-data", help="Fail if less data is found than the recipe asks for."),
]


@dataclass(frozen=True)
class Corpus:
    """A file of texts, and how to read it."""

    texts: Texts
    column: Column = None
    id_column: Annotated[
        str | None, typer.Option(help="Column of ids (default: rows are numbered from 1).")
    ] = None
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Vectors of these texts that encode wrote: a .npy or .parquet file, or a folder.",
            callback=checks.vectors,
        ),
    ] = None
    strip_html: StripHtml = False

    def read(self) -> tuple[list[str], list[str]]:
        """All texts with their ids."""
        from tertium.corpus.inputs import read_corpus

        return read_corpus(
            self.texts, column=self.column, id_column=self.id_column, strip_html=self.strip_html
        )

    def source(self, texts: list[str], *, model: str, engine: str) -> "Source":
        """The stored vectors of ``texts``, or the model that encodes them."""
        from tertium.corpus.inputs import read_vectors
        from tertium.engines.loading import load_embedder

        if self.vectors is not None:
            return read_vectors(self.vectors, texts=texts)
        return load_embedder(model, engine=engine)

    def stream(self) -> dict[str, Any]:
        """Texts, ids, columns and vectors as an index takes them, without holding them all."""
        from tertium.corpus.inputs import iter_columns, iter_ids, read_vectors
        from tertium.data.readers import iter_texts

        ids, vectors = self.id_column, self.vectors
        read = partial(iter_texts, self.texts, column=self.column, strip_html=self.strip_html)
        return {
            "texts": read(),
            "ids": None if ids is None else iter_ids(self.texts, ids),
            "columns": iter_columns(self.texts, column=self.column, id_column=ids),
            "vectors": None if vectors is None else read_vectors(vectors, texts=read()),
        }


@dataclass(frozen=True)
class PairColumns:
    """Columns of two texts that have unusual names."""

    column1: Annotated[
        str | None,
        typer.Option(help="Column of the first text; several, separated by commas, are joined."),
    ] = None
    column2: Annotated[str | None, typer.Option(help="Column of the second text.")] = None
    strip_html: StripHtml = False

    def read(self) -> "data_columns.Columns":
        """The columns for the readers of data."""
        from tertium.data.columns import Columns as Read

        given = ("column", "column1", "column2", "label_column", "strip_html")
        return Read.parse(**{name: getattr(self, name) for name in given if hasattr(self, name)})


@dataclass(frozen=True)
class Columns(PairColumns):
    """Columns of labelled pairs that have unusual names."""

    label_column: Annotated[
        str | None,
        typer.Option(help="Column of the label; several for as many raters."),
    ] = None


@dataclass(frozen=True)
class DataShape(Columns):
    """The shape of a data file, if its columns and values do not tell."""

    column: Column = None
    shape: Annotated[
        str | None,
        typer.Option(
            help="texts, pairs, graded, binary, words, positives, triplets or conditional "
            "(default: recognised by columns and values)."
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(help="Labels from least to most similar, separated by commas."),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(help="Lowest and highest grade, as 0,5 (default: by the grades found)."),
    ] = None
    split: Annotated[str | None, typer.Option(help="Only rows whose column split says this.")] = (
        None
    )

    def __bool__(self) -> bool:
        """Whether any of them was given."""
        return any(getattr(self, field.name) for field in fields(self))

    def recognise(self, path: Path, *, skip_bad_rows: bool = False) -> "Recognised":
        """Recognise the shape of the file."""
        from tertium.data.shapes import Shape, recognise
        from tertium.errors import unknown_name

        if self.shape is not None and self.shape not in set(Shape):
            raise unknown_name("shape", self.shape, list(Shape))
        return recognise(
            path,
            columns=self.read(),
            shape=self.shape,
            labels=None if self.labels is None else [w for w in self.labels.split(",") if w],
            scale=None if self.scale is None else parse_scale(self.scale),
            split=self.split,
            skip_bad_rows=skip_bad_rows,
        )


def parse_scale(given: str) -> tuple[float, float]:
    """Lowest and highest grade, from ``0,5`` or ``0-5``; raises if they are not."""
    from tertium.errors import TertiumError

    try:
        low, high = map(float, given.split(",") if "," in given else given.rsplit("-", 1))
    except ValueError:
        raise TertiumError(
            f"--scale {given}: give the lowest and highest grade, such as 0,5."
        ) from None
    if low >= high:
        raise TertiumError(f"--scale {given}: the lowest grade comes first, such as 0,5.")
    return low, high


def fitted_threshold(
    given: float | None, *, model: str, engine: str, usual: float
) -> tuple[float, "Decision | None"]:
    """The cosine to use: the one that was given, else the model's own, else the usual one.

    Prints on standard error where the model's own comes from.
    """
    from tertium.models.names import decision_of

    decision = None if engine == "static" else decision_of(model)
    threshold = None if decision is None else decision.rule("cosine").threshold
    if given is not None or decision is None or threshold is None:
        return usual if given is None else given, decision
    note(f"{decision.name}: {decision.reason('cosine')}")
    return threshold, decision


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Expand parameters that are dataclasses into one option per field.

    Typer sees a function with plain options; ``command`` receives the groups.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        members = (
            inspect.signature(groups[name]).parameters if name in groups else {name: parameter}
        )
        parameters += [
            member.replace(kind=inspect.Parameter.KEYWORD_ONLY) for member in members.values()
        ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
