"""One stage of training, on the Hugging Face Trainer."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import (
    PrinterCallback,
    ProgressCallback,
    TrainerControl,
    TrainerState,
)

from tertium.models.bfloat16 import check_bfloat16
from tertium.models.checkpoints import quiet
from tertium.progress import bar
from tertium.training.examples import EpochBatches, Examples
from tertium.training.health import Measurement, check_health
from tertium.training.module import TrainingModule

__all__ = [
    "Schedule",
    "StageTrainer",
    "last_checkpoint",
    "layer_of",
    "parameter_groups",
    "parameter_settings",
    "train_stage",
]

_COMPLETE = "complete"  # the last file of a checkpoint
_LAYER = re.compile(r"\.layers?\.(\d+)\.")
_NO_DECAY = re.compile(r"(^|\.)bias$|layer_?norm", re.IGNORECASE)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Attributes:
        epochs: passes over the data.
        max_steps: stop after this many optimiser steps instead.
        batch_size: examples per device and forward pass.
        accumulate: forward passes per optimiser step.
        learning_rate: learning rate of the top layer.
        weight_decay: weight decay, except for biases and LayerNorm.
        layer_decay: factor from each encoder layer to the one below.
        warmup: share of the steps if below 1, else their number.
        scheduler: name of a transformers scheduler.
        clip: maximum gradient norm, or None for no clipping.
        betas: betas of AdamW.
        seed: random seed of data order, dropout and new weights.
        bucket: batch examples of similar length together.
        drop_last: drop an incomplete last batch.
        checkpoint_every: steps between checkpoints if nothing is evaluated.
        evaluate_every: steps between evaluations; each writes a checkpoint.
        precision: ``float32``, ``bf16`` or ``fp16``.
        on_collapse: ``stop`` raises if an evaluation finds that embeddings have collapsed;
            ``continue`` only logs it, for studying collapse.
        report_to: names of transformers' experiment trackers.
    """

    epochs: float = 1.0
    max_steps: int = -1
    batch_size: int = 16
    accumulate: int = 1
    learning_rate: float = 2e-5
    weight_decay: float = 0.01
    layer_decay: float = 1.0
    warmup: float = 0.0
    scheduler: str = "linear"
    clip: float | None = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    seed: int = 42
    bucket: bool = False
    drop_last: bool = False
    checkpoint_every: int = 500
    evaluate_every: int | None = None
    precision: str = "float32"
    on_collapse: str = "stop"
    report_to: tuple[str, ...] = ()


class StageTrainer(Trainer):
    """The Trainer with our batches, parameter groups, named loss terms and selection."""

    def __init__(
        self,
        module: TrainingModule,
        examples: Examples,
        schedule: Schedule,
        folder: Path,
        *,
        select: Callable[[], Measurement] | None = None,
        progress: bool | None = None,
    ) -> None:
        on_cpu = module.encoder.device.type == "cpu"
        if on_cpu and schedule.precision == "bf16":
            check_bfloat16(remedy="train with precision float32")
        collate = module.collator
        super().__init__(
            model=module,
            args=_arguments(schedule, folder, selecting=select is not None, on_cpu=on_cpu),
            train_dataset=examples,
            eval_dataset=examples if select is not None else None,  # required, but not used
            data_collator=collate,
        )
        for loud in (PrinterCallback, ProgressCallback):
            self.remove_callback(loud)
        self.add_callback(_Resumed(self))
        if progress is not False:
            self.add_callback(_Bar(folder.name.lstrip("0123456789-")))
        self.module = module
        self.examples = examples
        self.schedule = schedule
        self.select = select
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._steps = 0
        lengths = collate.lengths(examples) if schedule.bucket else None
        self.batches = EpochBatches(
            len(examples),
            schedule.batch_size,
            seed=schedule.seed,
            lengths=lengths,
            drop_last=schedule.drop_last,
        )

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Our batches, distributed over processes by accelerate."""
        loader = DataLoader(
            self.examples, batch_sampler=self.batches, collate_fn=self.data_collator
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW with layer-wise learning rates."""
        if self.optimizer is None:
            schedule = self.schedule
            depth = int(self.module.encoder.backbone.config.num_hidden_layers)
            groups = parameter_groups(
                (model or self.module).named_parameters(),
                learning_rate=schedule.learning_rate,
                weight_decay=schedule.weight_decay,
                layer_decay=schedule.layer_decay,
                depth=depth,
            )
            self.optimizer = torch.optim.AdamW(groups, betas=schedule.betas, fused=True)
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,  # noqa: FBT001, FBT002 (the Trainer's signature)
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The module's loss; its terms are accumulated for the log."""
        outputs = model(**inputs)
        for name, value in outputs.items():
            if name != "loss":
                self._sums[name] += float(value.detach())
        self._steps += 1
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the mean of each term since the last entry."""
        if "loss" in logs and self._steps:
            logs |= {name: self._mean(total / self._steps) for name, total in self._sums.items()}
            self._sums.clear()
            self._steps = 0
        super().log(logs, start_time)

    def _mean(self, value: float) -> float:
        """The mean over processes."""
        tensor = torch.tensor(value, dtype=torch.float32, device=self.args.device)
        return float(self.accelerator.reduce(tensor, reduction="mean"))

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate by ``select``, and raise on collapse."""
        if self.select is None:
            return {}
        with self.compute_loss_context_manager():  # in the precision of training
            found = self.select()
        metrics = {f"eval_{n}": value for n, value in asdict(found).items() if value is not None}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        if self.schedule.on_collapse == "stop":
            check_health(found, step=self.state.global_step)
        return metrics

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save the weights of the whole module as safetensors, without pickled settings."""
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(state_dict or self.module.state_dict(), folder / "model.safetensors")

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Mark a checkpoint as complete once it is."""
        super()._save_checkpoint(model, trial)
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            (folder / _COMPLETE).touch()


class _Resumed(TrainerCallback):
    """Restores what the Trainer does not when it resumes."""

    def __init__(self, trainer: StageTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Update the path of the best checkpoint, since the folder may have moved."""
        best = Path(str(args.output_dir)) / f"checkpoint-{state.best_global_step}"
        if state.best_global_step and best.is_dir():
            state.best_model_checkpoint = str(best)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the epoch of batches, which the Trainer does not if they are sharded and skipped."""
        self._trainer.batches.set_epoch(int(state.epoch or 0))
        self._trainer.examples.set_epoch(int(state.epoch or 0))


class _Bar(TrainerCallback):
    """A progress bar with the loss and the last evaluation score."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._figures: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the bar at the current step of a resumed run."""
        self._bar = bar(
            total=state.max_steps,
            label=self._label,
            unit="step",
            show=bool(state.is_world_process_zero),
            initial=state.global_step,
        )

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Advance the bar."""
        self._bar.update()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the logged loss and score."""
        for key, name in (("loss", "loss"), ("eval_score", "score")):
            if logs and key in logs:
                self._figures[name] = f"{logs[key]:.3f}"
        self._bar.set_postfix(self._figures)

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """Close the bar."""
        self._bar.close()


def train_stage(
    module: TrainingModule,
    examples: Examples,
    schedule: Schedule,
    folder: Path,
    *,
    select: Callable[[], Measurement] | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> list[dict[str, float]]:
    """Train ``module`` in place, load the best checkpoint's weights, and return the log.

    Args:
        module: encoder and objectives.
        examples: the training data.
        schedule: duration, learning rate and so on.
        folder: folder for checkpoints, which the caller removes.
        select: evaluates the module's encoder; the best weights are kept.
        resume: continue from the last complete checkpoint in ``folder``.
        progress: False for no progress on standard error.
    """
    torch.manual_seed(schedule.seed)
    schedule = _at_least_one_evaluation(schedule, len(examples))
    trainer = StageTrainer(module, examples, schedule, folder, select=select, progress=progress)
    checkpoint = last_checkpoint(folder) if resume else None
    module.train()
    with quiet():
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    module.eval()
    return list(trainer.state.log_history)


def _at_least_one_evaluation(schedule: Schedule, count: int) -> Schedule:
    """Evaluate a run that is shorter than the evaluation interval at its end."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    whole = count // (schedule.batch_size * processes * schedule.accumulate)
    steps = schedule.max_steps if schedule.max_steps > 0 else int(max(whole, 1) * schedule.epochs)
    if schedule.evaluate_every is None:
        return schedule
    return replace(schedule, evaluate_every=max(min(schedule.evaluate_every, steps), 1))


def layer_of(name: str) -> int | None:
    """The encoder layer that a parameter belongs to, counted from 0; None outside the layers."""
    found = _LAYER.search(name)
    return int(found.group(1)) if found else None


def parameter_settings(
    name: str, *, learning_rate: float, weight_decay: float, layer_decay: float, depth: int
) -> tuple[float, float]:
    """Learning rate and weight decay of one parameter.

    The top encoder layer and everything outside the layers (embeddings, heads) have the base rate;
    each lower layer has ``layer_decay`` times the rate of the one above. Biases and LayerNorm have
    no weight decay.
    """
    layer = layer_of(name)
    below = depth - 1 - layer if layer is not None else 0
    return learning_rate * layer_decay**below, 0.0 if _NO_DECAY.search(name) else weight_decay


def parameter_groups(
    parameters: Iterable[tuple[str, nn.Parameter]],
    *,
    learning_rate: float,
    weight_decay: float,
    layer_decay: float,
    depth: int,
) -> list[dict[str, Any]]:
    """Optimiser groups of the trainable parameters, one per combination of settings."""
    groups: defaultdict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in parameters:
        if parameter.requires_grad:
            settings = parameter_settings(
                name,
                learning_rate=learning_rate,
                weight_decay=weight_decay,
                layer_decay=layer_decay,
                depth=depth,
            )
            groups[settings].append(parameter)
    return [
        {"params": members, "lr": rate, "weight_decay": decay}
        for (rate, decay), members in groups.items()
    ]


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint; incomplete ones are removed."""
    found = []
    for path in folder.glob("checkpoint-*"):
        if (path / _COMPLETE).exists():
            found.append(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _arguments(
    schedule: Schedule, folder: Path, *, selecting: bool, on_cpu: bool
) -> TrainingArguments:
    every = schedule.evaluate_every or schedule.checkpoint_every
    return TrainingArguments(
        output_dir=str(folder),
        use_cpu=on_cpu,  # otherwise several processes would not be connected
        num_train_epochs=schedule.epochs,
        max_steps=schedule.max_steps,
        per_device_train_batch_size=schedule.batch_size,
        gradient_accumulation_steps=schedule.accumulate,
        learning_rate=schedule.learning_rate,
        warmup_steps=schedule.warmup,
        lr_scheduler_type=schedule.scheduler,
        max_grad_norm=schedule.clip or 0.0,
        seed=schedule.seed,
        eval_strategy="steps" if selecting else "no",
        eval_steps=every if selecting else None,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=3,  # the best, the last, and the previous one while the last is written
        load_best_model_at_end=selecting,
        metric_for_best_model="score" if selecting else None,
        greater_is_better=True if selecting else None,
        logging_steps=max(1, min(every, 50)),
        bf16=schedule.precision == "bf16",
        fp16=schedule.precision == "fp16",
        report_to=list(schedule.report_to) or "none",
        disable_tqdm=True,  # we have our own bar
        remove_unused_columns=False,
        label_names=["labels"],
        logging_nan_inf_filter=False,
    )
