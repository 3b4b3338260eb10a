"""``tertium fit``: from labelled pairs to a model that decides."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import count, note, show, table

if TYPE_CHECKING:
    from tertium.recipes.fit import Fitted

__all__ = ["NAMES", "LabelledFile", "fit", "rows_of"]

NAMES = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "average_precision": "average precision",
    "auc": "area under ROC",
    "best_f1": "F1, best threshold in hindsight",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
}


@dataclass(frozen=True)
class LabelledFile(options.DataShape):
    """How a file of labelled pairs is read, where its columns and values leave it open."""

    positive: Annotated[
        str | None,
        typer.Option(
            help="Lowest grade, or word, that counts as yes (default: of words the last)."
        ),
    ] = None


@options.grouped
def fit(
    model: options.ModelArgument,
    pairs: Annotated[
        Path,
        typer.Argument(
            help="Labelled pairs: TSV, CSV, JSONL or Parquet with two texts and a grade, 0 or 1, "
            "or a word.",
            callback=checks.file,
        ),
    ],
    output: options.NewFolder,
    precision: Annotated[
        float | None, typer.Option(help="Choose the threshold for this precision, such as 0.95.")
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Choose the threshold for this recall (default: for the best F1)."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence with which precision or recall holds on new pairs.")
    ] = 0.9,
    name: Annotated[
        str | None,
        typer.Option(help="What is decided (default: duplicate, or the word that counts as yes)."),
    ] = None,
    engine: options.Engine = "default",
    bootstrap: Annotated[int, typer.Option(min=1, help="Bootstrap samples of intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed for folds and bootstrap.")] = 0,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Also fine-tune on two thirds of the pairs; keep what ranks the rest better.",
        ),
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe of --train (default: by the labels).", callback=checks.recipe),
    ] = None,
    *,
    file: LabelledFile,
    as_json: options.Json = False,
) -> None:
    """Find the threshold and calibration of a model on labelled pairs, and save it with them.

    Example: tertium fit default my_pairs.tsv -o mine --precision 0.95
    """
    from tertium.recipes.fit import fit as run

    fitted = run(
        model,
        file.recognise(pairs),
        output,
        positive=file.positive,
        precision=precision,
        recall=recall,
        confidence=confidence,
        name=name,
        engine=engine,
        resamples=bootstrap,
        seed=seed,
        train=train,
        recipe=recipe,
    )
    if fitted.trained is not None:
        note(
            "trained by {recipe}: {before:.1f} before, {after:.1f} after on held-out pairs; the "
            "model is kept {kept}".format(**fitted.trained)
        )
    for message in fitted.notes:
        note(f"note: {message}")
    lines = [] if as_json else _lines(fitted)
    show(_document(fitted), *lines, as_json=as_json, notes=_next(fitted))


def _document(fitted: "Fitted") -> dict[str, Any]:
    decision = fitted.decision
    return {
        "output": str(fitted.folder),
        "recognised": fitted.recognised.to_json(),
        **decision.model_dump(mode="json", exclude={"format"}),
        "notes": list(fitted.notes),
        "trained": fitted.trained,
    }


def _lines(fitted: "Fitted") -> list[Any]:
    decision = fitted.decision
    figures, held = decision.figures, decision.figures["held_out"]
    how = "whose pairs share no sentence" if held["folds"] > 1 else "the pairs themselves"
    lines: list[Any] = [
        str(fitted.recognised),
        table(("score against labels", "", "95 % interval"), rows_of(figures), right=("",)),
    ]
    decided = held.get("decision")
    if decided is not None:
        heading = f"held out, {count(held['folds'], 'fold')} {how}"
        lines.append(table((heading, "", "95 % interval"), rows_of(decided), right=("",)))
    for measure, rule in decision.by.items():
        if rule.threshold is not None:
            spread = rule.interval
            shown = "" if spread is None else f" ({spread[0]:.4f} to {spread[1]:.4f})"
            of = "" if len(decision.by) == 1 else f"{measure}: "
            reason = decision.reason(measure).replace("threshold ", "", 1)
            lines.append(f"{of}threshold {reason}{shown}")
    if "probability" in held:
        found = held["probability"]
        lines.append(
            f"probability by {found['method']}: log loss {found['log_loss'][found['method']]:.3f} "
            f"({found['constant']:.3f} without a model), calibration error "
            f"{found['calibration_error']:.1f} points"
        )
    if "grade" in held:
        found = held["grade"]
        lines.append(
            f"grade by {found['method']}: off by {found['mean_absolute_error']:.2f} on average"
        )
    return lines


def rows_of(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows of a table for figures with intervals; others are passed over."""
    rows = []
    for name, shown in NAMES.items():
        found = figures.get(name)
        if isinstance(found, dict):
            value, spread = found["value"], found["interval"]
            rows.append(
                (
                    shown,
                    "undefined" if value is None else f"{value:.1f}",
                    "" if spread is None else f"{spread[0]:.1f} to {spread[1]:.1f}",
                )
            )
    return rows


def _next(fitted: "Fitted") -> str:
    return f'{fitted.folder}: saved. Try: tertium compare "…" "…" --model {fitted.folder}'
