"""``tertium label``: which pairs to label next, a page to label them, and what the labels say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import count, emit, note, show, table
from tertium.errors import TertiumError, require

if TYPE_CHECKING:
    from tertium.data.ratings import LabelFile

__all__ = ["label"]

_GRADES = {
    "0": "nothing in common",
    "1": "same topic",
    "2": "some details shared",
    "3": "roughly the same",
    "4": "the same but for details",
    "5": "the same",
}
_FORMS = ("label-studio", "argilla")


@options.grouped
def label(
    pool: Annotated[
        Path | None,
        typer.Argument(
            help="Texts or pairs: text file, TSV, CSV, JSONL or Parquet.", callback=checks.file
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of the labels: .jsonl; it is added to.")
    ] = Path("labels.jsonl"),
    model: options.Model = "default",
    second: Annotated[
        str | None,
        typer.Option(help="Prefer pairs on which this model disagrees.", callback=checks.model),
    ] = None,
    dropout: Annotated[
        bool,
        typer.Option(
            "--dropout", help="Prefer pairs on which the model disagrees with its own dropout."
        ),
    ] = False,
    count_: Annotated[int, typer.Option("--count", "-n", min=1, help="Propose N pairs.")] = 50,
    answers: Annotated[
        str, typer.Option(help="grades (keys 0 to 5) or yes-no (keys y and n).")
    ] = "grades",
    candidates: Annotated[
        int, typer.Option(min=2, help="Choose among at most N pairs of the pool.")
    ] = 5000,
    to: Annotated[
        Path | None,
        typer.Option(help="Write the pairs as tasks into this .json file instead of a page."),
    ] = None,
    form: Annotated[str, typer.Option(help="Of --to: label-studio or argilla.")] = "label-studio",
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Add the answers of this export of either.", callback=checks.file
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Only say what the labels so far amount to.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address of the page.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, help="Port of the page; 0 for any.")] = 8090,
    engine: options.Engine = "default",
    seed: options.Seed = 0,
    *,
    shape: options.DataShape,
    as_json: options.Json = False,
) -> None:
    """Choose pairs worth labelling, label them on a page by keyboard, and report on the labels.

    Example: tertium label sentences.txt -o labels.jsonl --count 50
    """
    from tertium.corpus.labelling import propose
    from tertium.data.ratings import LabelFile, read_answers, write_tasks
    from tertium.files import check_ending

    check_ending(output, (".jsonl",))
    keys, words = _keys(answers)
    if form not in _FORMS:
        raise TertiumError(f"--form {form}: write label-studio or argilla.")
    file = LabelFile(output)
    if from_ is not None:
        names = {words[key].lower(): value for key, value in keys.items()} | keys
        known = {(rating.pair, rating.rater) for rating in file.ratings}
        found = read_answers(from_, names=names)
        fresh = [each for each in found if (each.pair, each.rater) not in known]
        if fresh:
            file.add(*fresh)
        note(f"{output}: {count(len(fresh), 'new label')} from {from_}")
    if report or from_ is not None:
        _report(file, model, engine, binary=answers == "yes-no", as_json=as_json)
        return
    if pool is None:
        raise TertiumError("Name a file of texts or pairs to choose from, or say --report.")
    if to is None:
        require("serve", purpose="The page", packages=("fastapi", "uvicorn"))
    recognised = shape.recognise(pool)
    from tertium.corpus.silver import candidates as find
    from tertium.data.shapes import Shape
    from tertium.engines.loading import load
    from tertium.models.loading import as_embedder

    scorer = load(model, engine=engine)
    finder = as_embedder(scorer) if recognised.shape is Shape.TEXTS else None
    pairs = propose(
        find(recognised, finder, most=candidates, seed=seed),
        scorer,
        count=count_,
        second=None if second is None else load(second, engine=engine),
        dropout=dropout,
        seed=seed,
    )
    if to is not None:
        check_ending(to, (".json",))
        write_tasks(to, pairs, form, labels=[words[key] for key in keys])
        document = {"output": str(to), "form": form, "pairs": len(pairs)}
        show(document, as_json=as_json, notes=f"{to}: {count(len(pairs), 'pair')} for {form}")
        return
    from tertium.serve.labelling import Session, serve
    from tertium.serve.settings import Settings

    def ready(url: str) -> None:
        if as_json:
            emit({"url": url, "pairs": len(pairs), "output": str(output)})
        note(f"{url}: {count(len(pairs), 'pair')} to label, saved in {output}; stop with Ctrl-C")

    session = Session(pairs, file, keys, words)
    serve(session, Settings(host=host, port=port), ready=ready)
    if not as_json and file.ratings:
        _report(file, model, engine, binary=answers == "yes-no", as_json=False)


def _keys(answers: str) -> tuple[dict[str, float], dict[str, str]]:
    if answers == "yes-no":
        return {"y": 1.0, "n": 0.0}, {"y": "yes", "n": "no"}
    if answers == "grades":
        return {key: float(key) for key in _GRADES}, dict(_GRADES)
    raise TertiumError(f"--answers {answers}: write grades or yes-no.")


def _report(file: "LabelFile", model: str, engine: str, *, binary: bool, as_json: bool) -> None:
    """Agreement, ceiling and learning curve of the labels so far."""
    from tertium.engines.loading import load
    from tertium.recipes.pairs import label_report

    if not file.ratings:
        raise TertiumError(f"{file.path} has no labels yet.")
    found = label_report(file.ratings, load(model, engine=engine), binary=binary)
    raters: list[tuple[str, str]] = [(name, f"{n:,}") for name, n in found["raters"].items()]
    lines: list[Any] = [table(("rater", "labels"), raters, right=("labels",))] if raters else []
    agreement = found["agreement"]
    if agreement is not None and agreement["alpha"] is not None:
        lines.append(f"Krippendorff's alpha {agreement['alpha']:.2f}")
        if agreement["perfect_model"] is not None:
            lines.append(f"a perfect model would reach about {agreement['perfect_model']:.1f}")
    if found["curve"]:
        rows = [(f"{each['labels']:,}", f"{each['loss']:.3f}") for each in found["curve"]]
        lines.append(table(("labels", "held-out loss"), rows, right=("labels", "held-out loss")))
    lines.append(found["advice"])
    show({"output": str(file.path), **found}, *lines, as_json=as_json)
