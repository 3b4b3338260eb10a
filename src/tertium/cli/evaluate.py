"""``tertium evaluate`` and ``tertium report``: benchmark models, and write a report on them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.fit import NAMES, LabelledFile, rows_of
from tertium.cli.output import count, note, say, show, table
from tertium.errors import TertiumError, require, unknown_name

if TYPE_CHECKING:
    from tertium.data.shapes import Recognised

__all__ = ["evaluate", "report"]

_MARKDOWN = (".md", ".markdown")
_LATEX = ".tex"


@options.grouped
def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Reserved name, folder or hub id; several with --pairs.", callback=checks.model
        ),
    ] = ["default"],
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Evaluate on these labelled pairs instead of a suite.", callback=checks.file
        ),
    ] = None,
    suite: Annotated[
        str,
        typer.Option(
            help="sts, transfer, geometry, csts, contrast, negations or mteb:NAME; several "
            "separated by commas.",
            callback=checks.suites,
        ),
    ] = "sts",
    data: options.DataOrHub = None,
    text: Annotated[
        str, typer.Option(help="senteval (tokenised, as in the papers) or raw.")
    ] = "senteval",
    pooling: Annotated[
        str | None,
        typer.Option(
            help="Pooling, or several separated by commas (default: the model's own).",
            callback=checks.poolings,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="A second model to test against, with a paired bootstrap.", callback=checks.model
        ),
    ] = None,
    exclude_overlap: Annotated[
        list[str],
        typer.Option(
            help="FILE or FILE:SPLIT whose pairs the leak-free scores exclude; may be repeated."
        ),
    ] = [],
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Bootstrap samples; 0 for no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed for bootstrap and folds.")] = 0,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Also write predictions for C-STS's hidden test part, for submission: .json."
        ),
    ] = None,
    engine: options.Engine = "default",
    precision: Annotated[
        str, typer.Option(help="float32, or bf16: faster on some processors, with torch only.")
    ] = "float32",
    trust_remote_code: options.TrustRemoteCode = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also save the results: .json, .md or .tex."),
    ] = None,
    *,
    file: LabelledFile,
    as_json: options.Json = False,
) -> None:
    """Evaluate models on your own pairs, or one model on benchmark suites.

    Example: tertium evaluate default --suite sts,geometry --data FOLDER
    """
    _check(text, exclude_overlap, predictions, output)
    if pairs is not None:
        _evaluate_pairs(
            models,
            file.recognise(pairs),
            output=output,
            positive=file.positive,
            as_json=as_json,
            exclude=exclude_overlap,
            data=data,
            engine=engine,
            resamples=bootstrap,
            seed=seed,
        )
        return
    if len(models) > 1:
        raise TertiumError(
            "Several models can be compared only on your own pairs (--pairs FILE); on a suite, "
            "give one model, and another with --baseline."
        )
    if file:
        raise TertiumError("Options for columns and labels, and --positive, need --pairs FILE.")
    (model,) = models
    import tertium

    if predictions is not None:
        from tertium.data import find_folder
        from tertium.evaluation.tasks.csts import write_predictions

        scorer = tertium.load(model, engine=engine)
        written = write_predictions(scorer, predictions, folder=find_folder(data))
        note(f"{predictions}: {count(written, 'prediction')}")
    if engine == "default" and (precision == "bf16" or trust_remote_code):
        engine = "torch"
    poolings = [None] if pooling is None else pooling.split(",")
    reports: dict[str, tertium.Report] = {}
    for name in poolings:
        reports[str(name)] = found = tertium.evaluate(
            tertium.load(model, pooling=name, engine=engine, trust_remote_code=trust_remote_code),
            suite.split(","),
            data=data,
            text=text,
            baseline=baseline,
            exclude=exclude_overlap,
            resamples=bootstrap,
            seed=seed,
            precision=precision,
        )
        if not as_json:
            say(f"pooling {name}\n{found}\n" if len(poolings) > 1 else str(found))
    document = _json(reports)
    if output is not None:
        _save(
            output,
            document=document,
            markdown=lambda: "\n".join(report.to_markdown() for report in reports.values()),
            latex=lambda: "\n".join(report.to_latex() for report in reports.values()),
        )
    show(document, as_json=as_json)


def _evaluate_pairs(
    models: list[str], pairs: "Recognised", *, output: Path | None, as_json: bool, **options: Any
) -> None:
    from tertium.recipes.pairs import evaluate_pairs

    found = evaluate_pairs(models, pairs, **options)
    for message in found["notes"]:
        note(f"note: {message}")
    headings, rows = _side_by_side(found)
    if output is not None:
        from tertium.evaluation.report import latex_table, markdown_table

        _save(
            output,
            document=found,
            markdown=lambda: markdown_table(headings, rows) + "\n",
            latex=lambda: latex_table(headings, rows) + "\n",
        )
    raters = found["raters"]
    lines: list[Any] = [
        f"{pairs.file}: {count(found['pairs'], 'pair')}",
        table(headings, rows, right=headings[1:]),
    ]
    if raters is not None:
        alpha, most = raters["alpha"], raters["perfect_model"]
        lines.append(
            f"{len(raters['raters'])} raters: Krippendorff's alpha "
            f"{'undefined' if alpha is None else f'{alpha:.2f}'}"
            + ("" if most is None else f"; a perfect model would reach about {most:.1f} (Pearson)")
        )
    show(found, *lines, as_json=as_json)


def _side_by_side(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """One row per measure, one column per model."""
    entries = found["models"]
    rows = [
        [name, *(_cell(*dict(_named(entry))[name]) for entry in entries)]
        for name, _ in _named(entries[0])
    ]
    headline = found["headline"]
    clean = [(entry["leak_free"] or {}).get("figures") for entry in entries]
    if any(entry["leak_free"] for entry in entries):
        cells = [
            ""
            if entry["leak_free"] is None
            else "all seen"
            if free is None
            else f"{free[headline]:.1f}"
            for entry, free in zip(entries, clean, strict=True)
        ]
        rows.append([f"{NAMES[headline]}, leak-free", *cells])
    changes = [entry["difference"] for entry in entries]
    if any(changes):
        known = [None if c is None or c["difference"] is None else c for c in changes]
        rows.append(["difference", *("" if c is None else _change(c) for c in known)])
        rows.append(["p (Holm)", *("" if c is None else f"{c['p_adjusted']:.3f}" for c in known)])
    return ["", *(entry["model"] for entry in entries)], rows


def _named(entry: dict[str, Any]) -> list[tuple[str, tuple[str, str]]]:
    return [(name, (value, spread)) for name, value, spread in rows_of(entry)]


def _cell(value: str, spread: str) -> str:
    return f"{value} ({spread})" if spread else value


def _change(change: dict[str, Any]) -> str:
    return _cell(f"{change['difference']:+.1f}", "{:+.1f} to {:+.1f}".format(*change["interval"]))


def report(
    models: Annotated[list[str], typer.Argument(help="Reserved names, folders or hub ids.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the page; an earlier report is replaced."),
    ],
    pairs: Annotated[
        list[Path],
        typer.Option(
            help="Graded pairs, or triples with a column condition; may be repeated.",
            callback=checks.file,
        ),
    ] = [],
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Texts whose attention is analysed (default: those of the pairs, or samples).",
            callback=checks.file,
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Lowest and highest grade of the pairs, as 0,4 (default: the range they cover)."
        ),
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option(help="Sentence whose attention maps are drawn (default: a sample)."),
    ] = None,
    data: options.DataFolder = None,
    sets: Annotated[
        str | None,
        typer.Option(
            help="Benchmark sets separated by commas, or none (default: all STS sets and C-STS; "
            "none with --pairs)."
        ),
    ] = None,
    runs: Annotated[
        list[Path],
        typer.Option(help="Folder of tertium train, sweep or lowshot; may be repeated."),
    ] = [],
    limit: Annotated[int, typer.Option(min=10, help="Use at most N pairs of a set.")] = 5000,
    bootstrap: Annotated[int, typer.Option(min=1, help="Bootstrap samples.")] = 1000,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write a page with results, figures, errors and commands; it needs no network.

    Example: tertium report default sts --pairs my_pairs.tsv -o report
    """
    from tertium.data import find_folder

    require("report", purpose="A report", packages=("jinja2", "matplotlib"))
    benchmarks = _sets(sets, own=bool(pairs))
    _check_models(models)
    grades = None if scale is None else options.parse_scale(scale)
    from tertium.report import build_report
    from tertium.report.build import SENTENCE

    built = build_report(
        models,
        output,
        pairs=pairs,
        scale=grades,
        texts=texts,
        benchmarks=benchmarks,
        folder=find_folder(data),
        runs=runs,
        sentence=sentence or SENTENCE,
        limit=limit,
        resamples=bootstrap,
        seed=seed,
    )
    figures = sum(1 for file in built.numbers["files"] if file.endswith(".svg"))
    total = count(len(built.numbers["models"]), "model")
    show(
        {"output": str(output), **built.numbers},
        f"{built.page}: {total}, {count(figures, 'figure')}",
        as_json=as_json,
        notes=[_left_out(entry) for entry in built.numbers["left_out"]],
    )
    for failure in built.broken:
        note(f"error: {failure.model}, while {failure.while_doing}: {failure.error}")
    if built.broken:
        raise typer.Exit(2)


def _check(text: str, exclude: list[str], predictions: Path | None, output: Path | None) -> None:
    from tertium.data.benchmarks import check_text
    from tertium.data.overlap import parse_spec
    from tertium.files import check_ending, check_outputs, existing_file

    check_text(text)
    for spec in exclude:
        existing_file(parse_spec(spec)[0])
    if predictions is not None:
        check_ending(predictions, (".json",))
    if output is not None:
        check_ending(output, (".json", *_MARKDOWN, _LATEX))
    check_outputs(None, predictions, output)


def _json(reports: dict[str, Any]) -> dict[str, Any]:
    """One report unchanged; several, by pooling, share model and provenance."""
    first, *others = (report.to_json() for report in reports.values())
    if not others:
        return dict(first)
    results = [first["results"], *(other["results"] for other in others)]
    provenance = [first["provenance"], *(other["provenance"] for other in others)]
    return {
        "model": first["model"],
        "poolings": dict(zip(reports, results, strict=True)),
        "provenance": {**provenance[-1], "seconds": sum(p["seconds"] for p in provenance)},
    }


def _save(
    output: Path, *, document: Any, markdown: Callable[[], str], latex: Callable[[], str]
) -> None:
    """Write what the ending of the file asks for."""
    from tertium.files import write_text

    if output.suffix.lower() in _MARKDOWN:
        text = markdown()
    elif output.suffix.lower() == _LATEX:
        text = latex()
    else:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_text(output, text)
    note(f"saved {output}")


def _check_models(names: list[str]) -> None:
    """Raise if none of the models exists; the page reports those that are missing."""
    missing: list[TertiumError] = []
    for name in names:
        try:
            checks.model(name)
        except TertiumError as error:
            missing.append(error)
    if len(missing) == len(names):
        raise missing[0]


def _sets(given: str | None, *, own: bool) -> list[str]:
    """Benchmark sets to use; by default all, or none with the user's own pairs."""
    from tertium.recipes.suites import suites

    known = [*suites()["sts"].tasks, *suites()["csts"].tasks]
    if given is None:
        return [] if own else known
    names = [name.strip() for name in given.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if name not in known:
            raise unknown_name("graded set", name, known)
    return names


def _left_out(entry: dict[str, Any]) -> str:
    whose = f", {entry['model']}" if entry["model"] else ""
    return f"left out: {entry['section']}{whose}: {entry['reason']}"
