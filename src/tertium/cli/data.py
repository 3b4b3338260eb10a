"""``tertium data``: look at data files before using them."""

from pathlib import Path

import typer

from tertium.cli.output import JSON, emit, say

__all__ = ["app", "check"]

app = typer.Typer(help="Check data files.", no_args_is_help=True)


@app.command()
def check(
    file: Path = typer.Argument(help="TSV, CSV, JSONL, Parquet or text file (.gz allowed)."),
    kind: str | None = typer.Option(
        None, help="texts, pairs, graded, conditional, triplets, nli, labelled or labelled-pairs."
    ),
    column: str | None = typer.Option(None, help="Check the texts of this column."),
    as_json: bool = JSON,
) -> None:
    """List every bad row of a file with line, column, value and remedy.

    Example: tertium data check my_pairs.tsv
    """
    from tertium.data.check import check_file

    result = check_file(file, kind=kind, column=column)
    if as_json:
        emit(
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
            }
        )
    else:
        for problem in result.problems:
            say(str(problem))
        for text in result.notes:
            say(f"{file}: {text}")
        found = _count(len(result.problems), "problem") if result.problems else "no problems"
        say(f"{file}: {result.kind}, {_count(result.rows, 'row')}, {found}")
    if result.problems:
        raise typer.Exit(2)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
