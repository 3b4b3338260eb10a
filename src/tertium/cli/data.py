"""``tertium data`` and ``tertium backtranslate``: check data files, and make paraphrases."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.command import Command
from tertium.cli.output import count, show, table

__all__ = ["app", "backtranslate", "check", "silver"]

app = typer.Typer(help="Check data files.", no_args_is_help=True)


@app.command(cls=Command)
@options.grouped
def check(
    file: Annotated[
        Path, typer.Argument(help="TSV, CSV, JSONL, Parquet or text file (.gz allowed).")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="texts, pairs, graded, conditional, relabelled, triplets, positives, nli, "
            "labelled or labelled-pairs (default: recognised by its columns)."
        ),
    ] = None,
    *,
    shape: options.DataShape,
    as_json: options.Json = False,
) -> None:
    """Say what a file is, and list every bad row with line, column, value and remedy.

    Example: tertium data check my_pairs.tsv
    """
    from functools import partial

    from tertium.data.check import check_file

    if kind is None:
        recognise = partial(shape.recognise, skip_bad_rows=True)
        result = check_file(file, recognise=recognise)
    else:
        result = check_file(file, kind=kind, column=shape.column)
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
            "recognised": None if result.recognised is None else result.recognised.to_json(),
            "ambiguous": result.ambiguous or None,
        },
        *([] if result.recognised is None else [str(result.recognised)]),
        *map(str, result.problems),
        *(f"{file}: {text}" for text in (*result.notes, result.ambiguous) if text),
        f"{file}: {result.kind or 'not recognised'}, {count(result.rows, 'row')}, {found}",
        as_json=as_json,
    )
    if result.problems:
        raise typer.Exit(2)


@options.grouped
def silver(
    file: Annotated[
        Path,
        typer.Argument(
            help="Texts or pairs: text file, TSV, CSV, JSONL or Parquet.", callback=checks.file
        ),
    ],
    output: options.TableFile,
    teacher: Annotated[
        list[str],
        typer.Option(
            help="Model that grades; several, repeated, give their mean.", callback=checks.model
        ),
    ],
    bins: Annotated[int, typer.Option(min=2, help="Bins of equal width on the scale.")] = 10,
    per_bin: Annotated[
        int | None,
        typer.Option(min=1, help="Keep at most N pairs of a bin (default: those of the median)."),
    ] = None,
    candidates: Annotated[int, typer.Option(min=2, help="Label at most N pairs.")] = 20_000,
    model: options.Model = "default",
    engine: options.Engine = "default",
    seed: options.Seed = 0,
    *,
    shape: options.DataShape,
    as_json: options.Json = False,
) -> None:
    """Have a strong model label pairs, balanced over the grades, to train a smaller one on.

    Pairs of single texts are mined by --model. After an interruption the same command resumes.

    Example: tertium silver sentences.txt --teacher sts -o silver.tsv
    """
    from tertium.corpus.inputs import TABLES
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(file, output)
    recognised = shape.recognise(file)
    from tertium.corpus.silver import candidates as find
    from tertium.corpus.silver import silver as label
    from tertium.data.shapes import Shape
    from tertium.engines.loading import load, load_embedder

    single = recognised.shape is Shape.TEXTS
    finder = load_embedder(model, engine=engine) if single else None
    pairs = find(recognised, finder, most=candidates, seed=seed)
    teachers = [load(name, engine=engine) for name in teacher]
    made = label(pairs, teachers, output, bins=bins, per_bin=per_bin, seed=seed)
    low, high = made.scale
    width = (high - low) / bins
    rows = [
        (f"{low + at * width:g} to {low + (at + 1) * width:g}", f"{had:,}", f"{kept:,}")
        for at, (had, kept) in enumerate(made.bins)
    ]
    document = {
        "output": str(output),
        "teachers": [each.name for each in teachers],
        "scale": [low, high],
        "candidates": made.candidates,
        "resumed": made.resumed,
        "pairs": made.kept,
        "bins": [{"labelled": had, "kept": kept} for had, kept in made.bins],
    }
    show(
        document,
        table(("grade", "labelled", "kept"), rows, right=("labelled", "kept")),
        as_json=as_json,
        notes=f"{output}: {count(made.kept, 'pair')}. Train on them: tertium train {output} -o DIR",
    )


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
    translator: Annotated[
        str, typer.Option(help="torch, or ctranslate2: MarianMT in 8 bit, faster.")
    ] = "torch",
    program: Annotated[
        str | None,
        typer.Option(
            help="A command that translates line by line instead of a model, with {source} and "
            "{target} for the codes."
        ),
    ] = None,
    keep_above: Annotated[
        float | None,
        typer.Option(
            min=-1,
            max=1,
            help="Also write positive pairs: those with at least this cosine; the others are "
            "listed apart.",
        ),
    ] = None,
    model: options.Model = "default",
    as_json: options.Json = False,
) -> None:
    """Translate texts into other languages and back; after an interruption it resumes.

    Example: tertium backtranslate sentences.txt -o paraphrases --pivot de,fr
    """
    from tertium.jobs.backtranslate import keep_similar, round_trip

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
            engine=translator,
            program=program,
        )
        for code in dict.fromkeys(code.strip() for code in pivot.split(","))
    ]
    pivots: list[dict[str, Any]] = [
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
    if keep_above is not None:
        from tertium.engines.loading import load_embedder

        compares = load_embedder(model)
        for trip, entry in zip(trips, pivots, strict=True):
            kept = keep_similar(texts, trip, compares, above=keep_above)
            entry["kept"] = {
                "above": keep_above,
                "model": compares.name,
                "pairs": str(kept.pairs),
                "dropped": str(kept.dropped),
                "kept": kept.kept,
                "unchanged": kept.unchanged,
                "below": kept.below,
                "blank": kept.blank,
                "mean": kept.mean,
            }
            done.append(
                f"{kept.pairs}: {count(kept.kept, 'pair')} with cosine {keep_above:g} or more, "
                f"{kept.below:,} dropped ({kept.dropped.name}), mean {kept.mean:.3f}"
            )
    show({"pivots": pivots}, as_json=as_json, notes=done)
