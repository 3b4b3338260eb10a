"""Runs a recipe stage by stage, resumably, and saves the model with its card."""

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tertium.data import benchmarks, csts
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.evaluation import Report
from tertium.files import atomic_path, report_full_disk, write_text
from tertium.heads import ConditionalHead, PairHead
from tertium.models import ConditionalScorer, CrossScorer, Encoder, PairScorer, load
from tertium.models.adapters import apply_adapter, extract_adapter
from tertium.models.bfloat16 import check_bfloat16
from tertium.models.names import is_shared_name
from tertium.recipes.build import (
    build_encoder,
    build_module,
    build_schedule,
    check_widths,
    chosen_layers,
    stage_encoder,
)
from tertium.recipes.card import write_card
from tertium.recipes.data import Amount, StageData, load_examples, taught, teacher_files
from tertium.recipes.files import (
    RUN,
    RecipeError,
    RecipeSource,
    called,
    check_run,
    leads,
    read_recipe,
)
from tertium.recipes.schema import Recipe, StageSpec, TeacherSpec
from tertium.recipes.selection import build_selection, resolve_selection, triple_selection
from tertium.recipes.suites import evaluate
from tertium.recipes.teaching import taught_triples
from tertium.recipes.triples import TripleData, load_triples
from tertium.records.lock import lock
from tertium.records.manifest import TrainingData
from tertium.training import train_stage
from tertium.training.examples import TripleExamples
from tertium.training.health import Measurement
from tertium.training.module import ConditionalModule

__all__ = ["Trained", "train"]

_RUN = RUN.parent  # recipe, checkpoints and log, inside the model folder
_DONE = "finished.json"


@dataclass(frozen=True)
class Trained:
    """The result of training.

    Attributes:
        folder: folder of the model, for :func:`tertium.load`.
        report: its evaluation, or None without benchmark data.
        seconds: wall time of training.
        log: log entries of every stage.
        data: how much data each stage used.
        leads: whether this process wrote the model, if a launcher started several.
    """

    folder: Path
    report: Report | None
    seconds: float
    log: dict[str, list[dict[str, float]]]
    data: dict[str, Amount]
    leads: bool = True


def train(
    recipe: RecipeSource,
    output: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
    resume: bool = False,
    command: str | None = None,
    evaluate_after: bool = True,
    strict_data: bool = False,
    progress: bool | None = None,
) -> Trained:
    """Train a recipe into ``output``.

    Args:
        recipe: the name of a shipped recipe, a YAML file, a dictionary, or a
            :class:`~tertium.recipes.schema.Recipe`.
        output: folder for the model; its ``run`` folder keeps recipe, log and checkpoints.
        data: benchmark folder.
        settings: changes to the recipe by their path: ``{"stages.0.train.epochs": 2}``.
        seed: replaces the seed of every stage.
        resume: resume an interrupted run; the final weights are those of an uninterrupted one.
        command: command to name in the card.
        evaluate_after: run the recipe's ``evaluate``, by default STS, if benchmark data is found.
        strict_data: raise instead of warning if there is less data than the recipe was published
            with, or than a limit requests.
        progress: False for no progress on standard error.
    """
    require("train", purpose="Training", packages=("accelerate",))
    checked, output = read_recipe(recipe, settings=settings, seed=seed), Path(output)
    for tracker in {name for stage in checked.stages for name in stage.train.report_to}:
        if find_spec(tracker) is None:
            raise TertiumError(f"train.report_to needs {tracker}: pip install {tracker}")
    folder = benchmarks.find_folder(None if data is None else Path(data))
    held = lock(output / _RUN / ".lock", protects=output, wait=0, remove=True)
    with held if leads() else nullcontext(), report_full_disk(output):
        if leads():
            _check_run(output, checked, resume=resume)
        return _train(
            called(recipe),
            checked,
            output,
            folder=folder,
            strict_data=strict_data,
            resume=resume,
            command=command,
            evaluated_as=(command or f"tertium train {called(recipe)}") if evaluate_after else None,
            progress=progress,
        )


def _train(
    name: str,
    checked: Recipe,
    output: Path,
    *,
    folder: Path | None,
    strict_data: bool,
    resume: bool,
    command: str | None,
    evaluated_as: str | None,
    progress: bool | None,
) -> Trained:
    """Train a validated recipe; ``evaluated_as`` is the command in the report."""
    run = output / _RUN
    start = time.perf_counter()
    plan = [resolve_selection(stage, folder=folder) for stage in checked.stages]
    suites = () if evaluated_as is None else _suites(checked, plan[-1], folder)
    prepared = [_load(stage, folder) for stage in plan]
    amounts = {stage.name: material.amount for stage, material in zip(plan, prepared, strict=True)}
    _check_amounts(name, amounts, strict=strict_data)
    encoder = build_encoder(checked.encoder)
    precisions = {stage.train.precision for stage in plan}
    if checked.evaluate is not None and suites:
        precisions.add(checked.evaluate.precision)
    if encoder.device.type == "cpu" and "bf16" in precisions:
        check_bfloat16(remedy="train with precision float32")  # before torch computes anything
    stages = [
        _prepare(stage, material, encoder, run / f"{number}-{stage.name}", data=folder)
        for number, (stage, material) in enumerate(zip(plan, prepared, strict=True))
    ]
    if leads():
        write_text(output / RUN, checked.to_yaml())  # only now, so that bad data leaves no files
        _record_data(run, stages)
        _spent(run, _seconds_before_kill(run))
    head: PairHead | ConditionalHead | None = None
    log: dict[str, list[dict[str, float]]] = {}
    try:
        for stage in stages:
            head, log[stage.name] = _run_stage(stage, head, resume=resume, progress=progress)
    except BaseException:  # count the time however it ends
        _spent(run, time.perf_counter() - start)
        raise
    if not leads():
        return Trained(output, None, time.perf_counter() - start, log, amounts, leads=False)
    seen = [data for stage in stages for data in stage.seen]
    encoder.training_data = tuple(dict.fromkeys([*encoder.training_data, *seen]))
    _save(checked, encoder, head, prepared[-1].labels, output)
    seconds = _spent(run, time.perf_counter() - start)
    report = None
    if suites:
        report = evaluate(
            load(output),
            suites,
            data=folder,
            command=evaluated_as,
            precision="float32" if checked.evaluate is None else checked.evaluate.precision,
        )
    write_card(
        output,
        checked,
        report,
        seconds=seconds,
        command=command,
        licences={terms for material in prepared for terms in material.licences},
        amounts=amounts,
        chosen_on=[name for stage in stages for name in stage.chosen_on],
    )
    for stage in stages:
        for checkpoint in stage.folder.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
        for file in teacher_files(stage.folder):
            file.unlink()
    return Trained(output, report, seconds, log, amounts)


@dataclass(frozen=True)
class _Stage:
    """A stage with its data, the encoder that it trains, and the folder of its checkpoints."""

    spec: StageSpec
    material: StageData
    encoder: Encoder
    folder: Path
    select: Callable[[], Measurement] | None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def seen(self) -> list[TrainingData]:
        """Its training and selection data, for the manifest."""
        select = self.spec.select
        if select is None or select.task == "held-out":
            return [*self.material.seen]
        chosen = TrainingData(name=select.task, split=select.split, use="selection")
        return [*self.material.seen, chosen]

    @property
    def chosen_on(self) -> list[str]:
        """The data that selected its checkpoint, for the card."""
        select, folds = self.spec.select, self.spec.data.folds
        pairs = len(self.material.held_out_pairs)
        if select is None:
            return []
        if select.task != "held-out":
            return [f"{select.task} ({select.split})"]
        if folds is not None:
            return [
                f"fold {folds.held_out} of {folds.count}, cut by sentence pair and not trained on"
            ]
        if pairs:
            return [f"{pairs:,} graded pairs, held out and not trained on"]
        return ["held-out texts, without labels"] if self.material.held_out else []


def _prepare(
    spec: StageSpec, material: StageData, encoder: Encoder, folder: Path, *, data: Path | None
) -> _Stage:
    trained, select = stage_encoder(spec, encoder), None
    if spec.select is not None and spec.head is None:  # the head of triples does not exist yet
        select = build_selection(
            spec.select,
            trained,
            folder=data,
            held_out=material.held_out,
            held_out_pairs=material.held_out_pairs,
        )
    if material.teacher is not None:
        check_widths(spec, material.teacher, encoder)
    return _Stage(spec, material, trained, folder, select)


def _load(stage: StageSpec, folder: Path | None) -> StageData:
    read = load_examples if stage.head is None else load_triples
    return read(stage, folder=folder)


def _check_amounts(recipe: str, amounts: dict[str, Amount], *, strict: bool) -> None:
    """Warn once, before training, if there is less data than the recipe requests."""
    short = [f"{amount} in stage {name}" for name, amount in amounts.items() if amount.short]
    if not short:
        return
    found = f"{recipe} finds less data than it asks for: {', '.join(short)}."
    if strict:
        raise TertiumError(f"{found} Put the whole set into the data folder, or set data.limit.")
    if leads():
        warnings.warn(
            f"{found} Its scores do not compare with published ones.", TertiumWarning, stacklevel=3
        )


def _suites(recipe: Recipe, last: StageSpec, folder: Path | None) -> tuple[str, ...]:
    """The suites to evaluate the result on, if the data is available."""
    if folder is None or any(source.name == "contradictions" for source in last.data.sources):
        return ()  # a judge of contradictions is evaluated as part of a careful scorer
    if recipe.evaluate is not None:
        return recipe.evaluate.suites
    if last.data.kind != "conditional":
        return ("sts",)
    return () if csts.find_file(folder, "validation") is None else ("csts",)


def _check_run(output: Path, recipe: Recipe, *, resume: bool) -> None:
    """Raise unless the run folder is new, or has the same recipe when resuming."""
    check_run(output, resume=resume)
    record = output / RUN
    if not record.exists():
        return
    try:
        same = read_recipe(record).model_dump() == recipe.model_dump()
    except RecipeError:
        same = False
    if not same:
        raise TertiumError(f"{record} differs from this recipe: a run resumes with its own recipe.")


def _record_data(run: Path, stages: Sequence[_Stage]) -> None:
    """Record each stage's training data: the number of examples, and their hash."""
    found = {
        stage.name: {
            "examples": len(stage.material.examples),
            "sha256": stage.material.digest,
            "amount": stage.material.amount.to_json(),
        }
        for stage in stages
    }
    write_text(run / "data.json", json.dumps(found, indent=1))


def _run_stage(
    stage: _Stage,
    before: PairHead | ConditionalHead | None,
    *,
    resume: bool,
    progress: bool | None,
) -> tuple[PairHead | ConditionalHead | None, list[dict[str, float]]]:
    """Train one stage in place, or load its result if it was finished before.

    ``before`` is the head of the previous stage.
    """
    material, select = stage.material, stage.select
    module = build_module(stage.spec, material, stage.encoder)
    if isinstance(material, TripleData) and isinstance(module, ConditionalModule):
        select = triple_selection(material, module, precision=stage.spec.train.precision)
    if stage.spec.keep_head and before is not None and module.trained_head is not None:
        module.trained_head.load_state_dict(before.state_dict())
    done, weights = stage.folder / _DONE, stage.folder / "model.safetensors"
    if resume and done.exists():
        module.load_state_dict(load_file(weights))
        return module.trained_head, json.loads(done.read_text())
    examples = material.examples
    if material.teacher is not None:
        examples = taught(examples, material.teacher, stage.folder, progress=progress)
    elif isinstance(material, TripleData) and material.grader is not None:
        examples = taught_triples(
            cast(TripleExamples, examples),
            material.grader,
            cast(TeacherSpec, stage.spec.teacher),
            stage.encoder,
            stage.folder,
            precision=stage.spec.train.precision,
            progress=progress,
        )
    log = train_stage(
        module,
        examples,
        build_schedule(stage.spec),
        stage.folder,
        select=select,
        resume=resume,
        progress=progress,
    )
    if leads():
        with atomic_path(weights) as temporary:
            save_file(module.state_dict(), temporary)
        write_text(done, json.dumps(log, indent=1))
    return module.trained_head, log


def _save(
    recipe: Recipe,
    encoder: Encoder,
    head: PairHead | ConditionalHead | None,
    labels: OrderedLabels | None,
    output: Path,
) -> None:
    """Save a scorer if the last stage learned to grade, else an encoder."""
    model: Encoder | ConditionalScorer | CrossScorer | PairScorer = encoder
    if isinstance(head, ConditionalHead) and labels is not None:
        model = ConditionalScorer(encoder, head, labels)
        if recipe.stages[-1].data.kind == "graded":
            model = CrossScorer(model)
    elif isinstance(head, PairHead) and labels is not None:
        model = PairScorer(encoder, head, labels)
    if recipe.encoder.adapter_rank is not None and not is_shared_name(recipe.encoder.model):
        warnings.warn(
            f"No adapter is saved: it would name {recipe.encoder.model}, a folder that only this "
            "machine has. The whole model is saved.",
            TertiumWarning,
            stacklevel=2,
        )
    elif recipe.encoder.adapter_rank is not None:
        adapter = _project(recipe, encoder)
        if isinstance(head, ConditionalHead):
            with torch.no_grad():  # an adapter keeps half precision
                for parameter in head.parameters():
                    parameter.copy_(parameter.half())
        details: dict[str, Any] = {"base": recipe.encoder.model}
        if isinstance(model, Encoder):
            details["layers"] = chosen_layers(recipe.encoder)
        model.save_adapter(output / "adapter", adapter, **details)
    model.save(output)


def _project(recipe: Recipe, encoder: Encoder) -> dict[str, Tensor]:
    """Reduce the changes made by training to an adapter, and apply exactly that adapter."""
    base = build_encoder(recipe.encoder).backbone
    tuned = encoder.backbone.state_dict()
    spec = recipe.encoder
    adapter = extract_adapter(base, tuned, rank=spec.adapter_rank or 0, factor=spec.adapter_factor)
    apply_adapter(base, adapter)
    encoder.backbone.load_state_dict(base.state_dict())
    return adapter


def _spent(run: Path, seconds: float) -> float:
    """Seconds of this call and of earlier, interrupted ones."""
    record = run / "seconds.txt"
    total = seconds + (float(record.read_text()) if record.exists() else 0.0)
    if leads():
        record.write_text(f"{total:.1f}")
    return total


def _seconds_before_kill(run: Path) -> float:
    """The time that a killed call spent, up to its last checkpoint.

    Every call writes ``seconds.txt`` when it begins, and again when it ends unless it is killed.
    """
    record = run / "seconds.txt"
    checkpoints = [folder.stat().st_mtime for folder in run.glob("*/checkpoint-*")]
    if not record.exists() or not checkpoints:
        return 0.0
    return max(0.0, max(checkpoints) - record.stat().st_mtime)
