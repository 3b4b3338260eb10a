"""``tertium rtt``: texts through another language and back."""

from pathlib import Path

import typer

from tertium.cli import corpus
from tertium.cli.output import JSON, emit, note

__all__ = ["rtt"]


def rtt(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(..., "--output", "-o", help="Folder for one file per pivot."),
    pivot: str = typer.Option("de,fr", help="Languages to go through, with commas between."),
    to: str | None = typer.Option(
        None, help="Model to the pivot, {pivot} standing for it (default: MarianMT from English)."
    ),
    from_: str | None = typer.Option(
        None, "--from", help="Model back (default: that of --to, or MarianMT to English)."
    ),
    language: str = typer.Option("en", help="Of the texts, as a multilingual model writes it."),
    beams: int = typer.Option(4, min=1, help="Width of the search."),
    max_length: int = typer.Option(128, min=4, help="Tokens read of a text, and written."),
    as_json: bool = JSON,
) -> None:
    """Translate texts into other languages and back; the same command goes on after a stop.

    Example: tertium rtt sentences.txt -o rtt --pivot de,fr
    """
    from tertium.jobs.backtranslate import round_trip

    pivots = dict.fromkeys(code.strip() for code in pivot.split(","))
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
        for code in pivots
    ]
    if as_json:
        emit(
            {
                "pivots": [
                    {
                        "pivot": trip.pivot,
                        "file": str(trip.file),
                        "texts": trip.texts,
                        "unchanged": trip.unchanged,
                    }
                    for trip in trips
                ]
            }
        )
    else:
        for trip in trips:
            note(f"{trip.file}: {trip.texts:,} texts, {trip.unchanged:,} of them unchanged")
