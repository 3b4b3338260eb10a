"""Fits a threshold and a calibration on labelled pairs, and saves them with the model."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.shapes import Recognised, recognise
from tertium.engines.loading import load
from tertium.errors import TertiumError, require
from tertium.evaluation.metrics import hundred, spearman
from tertium.evaluation.pairs import Aim, LabelledPairs, decide, figures, folds_of, resampled
from tertium.evaluation.thresholds import average_precision
from tertium.files import atomic_folder, check_new_folder, sha256
from tertium.models.base import Embedder, Model
from tertium.models.names import resolve
from tertium.recipes.files import called
from tertium.records.decision import Decision, DecisionSource, Measure, Rule
from tertium.records.manifest import (
    DECISION,
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)

__all__ = ["Fitted", "fit", "measures"]

Vector = NDArray[np.float64]
_UNSURE = 100  # pairs below which intervals are wide
_WORDS_FOR_YES = {"1", "yes", "y", "true", "t", "same", "positive"}


@dataclass(frozen=True)
class Fitted:
    """A model with a fitted decision.

    Attributes:
        folder: folder of the model; :func:`tertium.load` reads it with its ``decision``.
        decision: thresholds, calibrations and figures.
        recognised: the recognised file of pairs.
        notes: warnings such as too few or repeated pairs, or a score that is of no use.
        trained: scores of the model before and after training, and which was kept; None without
            training.
    """

    folder: Path
    decision: Decision
    recognised: Recognised
    notes: tuple[str, ...] = ()
    trained: dict[str, Any] | None = None


def fit(
    model: str | os.PathLike[str],
    pairs: str | os.PathLike[str] | Recognised,
    output: str | os.PathLike[str],
    *,
    precision: float | None = None,
    recall: float | None = None,
    confidence: float = 0.9,
    positive: str | float | None = None,
    name: str | None = None,
    engine: str = "default",
    resamples: int = 1000,
    seed: int = 0,
    train: bool = False,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> Fitted:
    """Fit the threshold and calibration of a model on labelled pairs, and save the model with them.

    Pairs that share a sentence, directly or through other pairs, are held out together. The figures
    of threshold and calibration are measured on held-out pairs in five folds; the saved ones are
    fitted on all pairs.

    Args:
        model: anything that :func:`tertium.load` takes; its files are copied.
        pairs: two texts and a grade, 0 or 1, or a word in every row.
        output: a new or empty folder for the model.
        precision: required share of correct ones among accepted pairs.
        recall: required share of accepted ones among positive pairs; without either, the threshold
            has the best F1.
        confidence: probability with which the required share holds on new pairs of the same kind.
        positive: lowest grade, or word, that counts as yes (default: the last word).
        name: what is decided (default: ``duplicate``, or the word that counts as yes).
        engine: engine that runs the model.
        resamples: bootstrap samples for the intervals.
        seed: random seed for folds and bootstrap.
        train: also fine-tune the model on two thirds of the pairs, and keep the model that ranks
            the other third better; a trained model is fitted on that third.
        recipe: recipe for training (default: the one for such labels).
        settings: changes to the recipe, by their path.
        progress: False for no progress on standard error.
        reading: options of :func:`tertium.data.recognise` for reading the file: columns, labels,
            scale, split.
    """
    output = Path(output)
    check_new_folder(output)
    aim = Aim.of(precision, recall, confidence)
    found = pairs if isinstance(pairs, Recognised) else recognise(Path(pairs), **reading)
    path = found.file
    own = LabelledPairs.read(found)
    yes, counted = own.positive(positive)
    if yes is None and aim.goal != "f1":
        raise TertiumError(
            f"{path}: a {aim.goal} needs to know which grades count as yes: --positive "
            f"{(own.scale.low + own.scale.high) / 2:g}, for example."
        )
    own.check(yes)
    loaded, source = load(model, engine=engine), resolve(model)
    tuned = None
    with tempfile.TemporaryDirectory() as place:
        if train:
            tuned, loaded, source, own = _trained(
                *(model, loaded, own, Path(place)),
                recipe=recipe,
                settings=settings or {},
                engine=engine,
                seed=seed,
                progress=progress,
            )
            yes, counted = own.positive(positive)
            own.check(yes)
        scores = measures(loaded, own.items, progress=progress)
        decision, notes = _decision(own, scores, yes, aim, resamples=resamples, seed=seed)
        decision = decision.model_copy(
            update={
                "name": name or _name(own, positive),
                "positive": counted,
                "source": DecisionSource(
                    file=path.name,
                    sha256=sha256(path),
                    pairs=len(own),
                    positives=None if yes is None else int(yes.sum()),
                ),
            }
        )
        uses = [DECISION, *(["training"] if tuned and tuned["kept"] == "trained" else [])]
        seen = [TrainingData(name=str(path), split=found.split, use=use) for use in uses]
        save_decided(source, loaded, decision, output, seen=seen)
    return Fitted(output, decision, found, (*found.notes, *own.notes, *notes), tuned)


def _trained(
    model: str | os.PathLike[str],
    loaded: Model,
    own: LabelledPairs,
    place: Path,
    *,
    recipe: str | None,
    settings: Mapping[str, Any],
    engine: str,
    seed: int,
    progress: bool | None,
) -> tuple[dict[str, Any], Model, Path, LabelledPairs]:
    """Train on two thirds and compare on the rest; returns what was kept and the pairs to fit."""
    require("train", purpose="--train", packages=("torch", "accelerate"))
    from tertium.recipes.choose import choose
    from tertium.recipes.train import train

    folds = folds_of(own, folds=3, seed=seed)
    if not folds.any():
        raise TertiumError(
            f"{own.file}: the pairs hang together by the sentences they share, so none can be held "
            "out to compare the trained model with the other. Leave out --train."
        )
    held, pairs = folds == 0, place / "pairs.jsonl"
    rest, unseen = own.subset(~held), own.subset(held)
    names = own.scale.names
    with pairs.open("w", encoding="utf-8") as stream:
        for item, label in zip(rest.items, rest.labels.tolist(), strict=True):
            row = dict(zip(("sentence1", "sentence2", "condition"), item, strict=False))
            said = label if names is None or own.binary else names[round(label - own.scale.low)]
            stream.write(json.dumps({**row, "label": said}, ensure_ascii=False) + "\n")
    ends = None if own.binary or names is not None else (own.scale.low, own.scale.high)
    words = None if own.binary or names is None else list(names)
    chosen = choose(recognise(pairs, labels=words, scale=ends), recipe=recipe)
    changes = {"encoder.model": str(model), "encoder.adapter_rank": None}
    result = place / "model"
    train(
        chosen.recipe,
        result,
        settings={**chosen.settings, **changes, **settings},
        seed=seed,
        evaluate_after=False,
        progress=progress,
    )
    after = load(result, engine=engine)
    yes = unseen.labels > 0.5 if own.binary else None
    figures_ = [
        headline(unseen, measures(each, unseen.items, progress=progress)["score"], yes)
        for each in (loaded, after)
    ]
    better = figures_[1] > figures_[0]
    report = {
        "recipe": called(chosen.recipe),
        "reasons": list(chosen.reasons),
        "figure": own.headline,
        "pairs": {"trained_on": len(rest), "held_out": len(unseen)},
        "before": hundred(figures_[0]),
        "after": hundred(figures_[1]),
        "kept": "trained" if better else "as it was",
    }
    if better:
        return report, after, result, unseen
    return report, loaded, resolve(model), own


def measures(
    model: Model, items: Sequence[tuple[str, ...]], *, progress: bool | None = None
) -> dict[Measure, Vector]:
    """The score of each pair and, if it differs, the cosine.

    Args:
        model: encodes each distinct text once.
        items: pairs or triples; a condition is ignored if the model takes none.
        progress: False for no progress on standard error.
    """
    if model.takes_conditions:
        if any(len(item) < 3 for item in items):
            raise TertiumError(
                f"{model.name} compares under a condition, and the pairs have none. Add a column "
                "condition, or take another model."
            )
        return {"score": _finite(model, model.score(items, progress=progress))}
    pairs = [(item[0], item[1]) for item in items]
    if not isinstance(model, Embedder):
        return {"score": _finite(model, model.score(pairs, progress=progress))}
    scores, cosines = model.score_and_cosine(pairs, progress=progress)
    found: dict[Measure, Vector] = {"score": _finite(model, scores)}
    if not np.array_equal(scores, cosines):
        found["cosine"] = _finite(model, cosines)
    return found


def _finite(model: Model, scores: Any) -> Vector:
    found = np.asarray(scores, np.float64)
    if not np.isfinite(found).all():
        raise TertiumError(f"{model.name} gives a score that is not finite.")
    return found


def _decision(
    own: LabelledPairs,
    scores: dict[Measure, Vector],
    yes: NDArray[np.bool_] | None,
    aim: Aim,
    *,
    resamples: int,
    seed: int,
) -> tuple[Decision, list[str]]:
    """Rules for score and cosine with the figures of the score, and notes on them."""
    folds = folds_of(own, seed=seed)
    by: dict[Measure, Rule] = {}
    by["score"], held = decide(own, scores["score"], yes, folds, aim, seed=seed)
    for measure in scores.keys() - {"score"}:
        by[measure], _ = decide(own, scores[measure], yes, folds, aim, seed=seed, or_none=True)
    counts = resampled(own, resamples=resamples, seed=seed)
    measured = figures(own, scores["score"], yes, counts)
    notes = _notes(own, scores["score"], yes, folds, held)
    decision = Decision(
        name="",
        goal=None if yes is None else aim.goal,
        wanted=None if yes is None else aim.wanted,
        confidence=None if yes is None or aim.goal == "f1" else aim.confidence,
        by=by,
        source=DecisionSource(file="", sha256="", pairs=len(own)),
        figures={**measured, "held_out": held},
    )
    return decision, notes


def _notes(
    own: LabelledPairs,
    scores: Vector,
    yes: NDArray[np.bool_] | None,
    folds: NDArray[np.int64],
    held: dict[str, Any],
) -> list[str]:
    notes = []
    if len(own) < _UNSURE:
        notes.append(
            f"{len(own)} pairs are few: look at the intervals before you rely on the figures"
        )
    if not folds.any():
        notes.append(
            "the pairs hang together by the sentences they share, so none could be held out: "
            "threshold and calibration are measured on the pairs they were fitted on"
        )
    useless = spearman(own.labels if yes is None else yes.astype(float), scores)
    if not useless > 0:
        notes.append(
            "the scores do not rise with the labels: are the labels the wrong way round, or the "
            "wrong column? The calibration is constant"
        )
    for name, loss in (("probability", "log_loss"), ("grade", "mean_squared_error")):
        found = held.get(name)
        if useless > 0 and found and found[loss][found["method"]] >= found["constant"]:
            notes.append(
                f"on held-out pairs, the {name} is no better than a constant: the score says "
                "little about these labels"
            )
    without = held.get("decision", {}).get("folds_without_threshold", 0)
    if without:
        notes.append(
            f"with four fifths of the pairs, {without} of {held['folds']} folds found no threshold "
            "that keeps the promise; the held-out figures count that as accepting nothing"
        )
    return notes


def _name(own: LabelledPairs, positive: str | float | None) -> str:
    names = own.scale.names or ()
    word = names[-1] if names and positive is None else positive
    return str(word) if word in names and word not in _WORDS_FOR_YES else "duplicate"


def save_decided(
    source: Path, model: Model, decision: Decision, output: Path, *, seen: Sequence[TrainingData]
) -> None:
    """Copy a model's folder and add the decision to its manifest."""
    manifest = read_manifest(source) or Manifest(
        kind=model.kind,
        pooling=model.pooling,
        scale=model.scale,
        training_data=model.training_data,
    )
    details = {**manifest.details, DECISION: decision.model_dump(mode="json")}
    known = [
        each for each in manifest.training_data if not each.name.startswith(str(source.parent))
    ]
    data = tuple(dict.fromkeys([*known, *seen]))
    with atomic_folder(output, last=FILE_NAME) as temporary:
        shutil.copytree(
            source, temporary, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "run")
        )
        write_manifest(
            temporary, manifest.model_copy(update={"details": details, "training_data": data})
        )


def headline(own: LabelledPairs, scores: Vector, yes: NDArray[np.bool_] | None) -> float:
    """The figure that models are compared by: average precision, or Spearman's correlation."""
    if own.binary and yes is not None:
        return average_precision(yes, scores)
    return spearman(own.labels, scores)
