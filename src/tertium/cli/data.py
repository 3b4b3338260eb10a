"""``tertium data`` and ``tertium backtranslate``: check data files, and make paraphrases."""

from pathlib import Path
from typing import Annotated

import typer

from tertium.cli import options
from tertium.cli.output import count, show

__all__ = ["app", "backtranslate", "check"]

app = typer.Typer(help="Check data files.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(help="TSV, CSV, JSONL, Parquet or text file (.gz allowed).")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="texts, pairs, graded, conditional, relabelled, triplets, nli, labelled or "
            "labelled-pairs (default: recognised by its columns)."
        ),
    ] = None,
    column: options.Column = None,
    as_json: options.Json = False,
) -> None:
    """List every bad row of a file with line, column, value and remedy.

    Example: tertium data check my_pairs.tsv
    """
    from tertium.data.check import check_file

    result = check_file(file, kind=kind, column=column)
    found = count(len(result.problems), "problem") if result.problems else "no problems"
    show(
        {
            "file": str(file),
            "kind": result.kind,
            "rows": result.rows,
            "problems": [
                {
                    "line": problem.line,
                    "column": problem.column,
                    "value": None if problem.value is None else str(problem.value),
                    "remedy": problem.remedy,
                }
                for problem in result.problems
            ],
            "notes": list(result.notes),
        },
        *map(str, result.problems),
        *(f"{file}: {text}" for text in result.notes),
        f"{file}: {result.kind}, {count(result.rows, 'row')}, {found}",
        as_json=as_json,
    )
    if result.problems:
        raise typer.Exit(2)


def backtranslate(
    texts: options.Texts,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for one file per pivot language.")
    ],
    pivot: Annotated[
        str, typer.Option(help="Languages to translate through, separated by commas.")
    ] = "de,fr",
    to: Annotated[
        str | None,
        typer.Option(
            help="Model to the pivot, with {pivot} for its code "
            "(default: Helsinki-NLP/opus-mt-en-{pivot})."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Model back (default: that of --to, or Helsinki-NLP/opus-mt-{pivot}-en).",
        ),
    ] = None,
    language: Annotated[
        str, typer.Option(help="Language of the texts, as a multilingual model writes it.")
    ] = "en",
    beams: Annotated[int, typer.Option(min=1, help="Beams of the search.")] = 4,
    max_length: Annotated[
        int, typer.Option(min=4, help="Most tokens read of a text, and written.")
    ] = 128,
    as_json: options.Json = False,
) -> None:
    """Translate texts into other languages and back; after an interruption it resumes.

    Example: tertium backtranslate sentences.txt -o paraphrases --pivot de,fr
    """
    from tertium.jobs.backtranslate import round_trip

    trips = [
        round_trip(
            texts,
            output,
            code,
            to=to,
            back=from_,
            language=language,
            beams=beams,
            max_length=max_length,
        )
        for code in dict.fromkeys(code.strip() for code in pivot.split(","))
    ]
    pivots = [
        {
            "pivot": trip.pivot,
            "file": str(trip.file),
            "texts": trip.texts,
            "unchanged": trip.unchanged,
        }
        for trip in trips
    ]
    done = [
        f"{trip.file}: {count(trip.texts, 'text')}, {trip.unchanged:,} of them unchanged"
        for trip in trips
    ]
    show({"pivots": pivots}, as_json=as_json, notes=done)
