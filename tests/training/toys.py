"""A toy problem that a tiny model learns in a few steps, in this process or in one of its own."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import TrainerCallback

import tertium
from tertium.heads import CONDITIONAL_HEADS, ModelShape, Projection, SiameseHead
from tertium.models import Encoder
from tertium.models.conditional_model import ConditionalModel
from tertium.models.surgery import language_head
from tertium.objectives import (
    CoSent,
    CrossTowerContrast,
    InfoNCE,
    MaskedLM,
    ModulusConstraint,
    NTXent,
    Objective,
    SmoothK2,
    TowerContrast,
)
from tertium.training import Examples, Schedule, TrainingModule, train_stage
from tertium.training.examples import TripleExamples
from tertium.training.health import Measurement
from tertium.training.module import ConditionalModule, WeightedObjective
from tertium.training.negatives import MomentumQueue
from tertium.training.stage import StageTrainer
from tertium.training.vocabulary import read_vocabulary
from tertium.views import VIEWS
from tests.fakes import WORDS

HEALTHY = {"uniformity": -2.0, "effective_rank": 9.0, "anisotropy": 0.1}


class StoppedError(Exception):
    """Stands for Ctrl-C, a full disk, or a power cut."""


def toy_examples(count: int = 24, *, seed: int = 0) -> Examples:
    """Equal texts are alike (2), texts without a common word are not (0)."""
    draw = random.Random(seed)
    texts: list[tuple[str, ...]] = []
    for at in range(count):
        first = draw.sample(WORDS[:26], draw.randint(1, 8))
        others = [word for word in WORDS[:26] if word not in first]
        texts.append((" ".join(first), " ".join(first if at % 2 else draw.sample(others, 4))))
    return Examples(texts, [2.0 * (at % 2) for at in range(count)])


def toy_module(
    model: Path, *, dropout: bool = True, objectives: dict[str, type[Objective]] | None = None
) -> TrainingModule:
    encoder = tertium.load(model, engine="torch")
    assert isinstance(encoder, Encoder)
    module = TrainingModule(
        encoder,
        {
            name: WeightedObjective(
                kind(head=SiameseHead(dimension=encoder.dimension), low=0.0, high=2.0)  # type: ignore[call-arg]
            )
            for name, kind in (objectives or {"smooth_k2": SmoothK2}).items()
        },
        sides=2,
    )
    return module if dropout else without_dropout(module)


def without_dropout(module: TrainingModule) -> TrainingModule:
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


def toy_texts(count: int = 24, *, sides: int = 1) -> Examples:
    """Different texts of one to eight words; further sides are others of them."""
    texts = [f"{first} {second}" for first, second in toy_examples(count).texts]
    rows = [tuple(texts[(at + side) % count] for side in range(sides)) for at in range(count)]
    return Examples(rows)


def contrastive_module(
    model: Path,
    *objectives: Objective,
    views: dict[str, dict[str, Any]] | None = None,
    projection: bool = False,
    masked: bool = False,
    momentum: dict[str, Any] | None = None,
    sides: int = 1,
    dropout: bool = True,
    tokens_per_pass: int | None = None,
) -> TrainingModule:
    """A module on single texts; ``views`` are settings by kind, in their order."""
    encoder = tertium.load(model, engine="torch")
    assert isinstance(encoder, Encoder)
    parts = {type(part).__name__: WeightedObjective(part) for part in objectives or [InfoNCE()]}
    if masked:
        auxiliary = MaskedLM(head=language_head(encoder, seed=0))
        parts["MaskedLM"] = WeightedObjective(auxiliary, weight=0.1)
    vocabulary = read_vocabulary(encoder.tokenizer, encoder.backbone)
    module = TrainingModule(
        encoder,
        parts,
        sides=sides,
        views=[VIEWS[kind](vocabulary, **settings) for kind, settings in (views or {}).items()],
        projection=Projection(dimension=encoder.dimension, spread=0.3) if projection else None,
        momentum=None if momentum is None else MomentumQueue(encoder, **momentum),
        tokens_per_pass=tokens_per_pass,
    )
    return module if dropout else without_dropout(module)


def selection(module: TrainingModule) -> Callable[[], Measurement]:
    """A score that is a function of the weights, so that two equal runs choose alike."""

    def select() -> Measurement:
        total = sum(float(p.detach().double().sum()) for p in module.parameters())
        return Measurement(score=abs(total * 1e4) % 1, **HEALTHY)

    return select


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def stop_at(module: TrainingModule, forward: int, stop: Callable[[], None]) -> None:
    """Call ``stop`` in the forward pass of that number."""
    calls = iter(range(1, 10_000))

    def hook(*_: object) -> None:
        if next(calls) == forward:
            stop()

    module.register_forward_pre_hook(hook)


def stopped() -> None:
    raise StoppedError


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


RESUMABLE = Schedule(
    epochs=3, batch_size=6, accumulate=2, learning_rate=1e-3, warmup=0.2, evaluate_every=2, seed=7
)


class KeepGradients(TrainerCallback):
    """What the first optimiser step is made of."""

    def __init__(self) -> None:
        self.gradients: dict[str, Tensor] = {}

    def on_pre_optimizer_step(self, *_: Any, **kwargs: Any) -> None:
        if not self.gradients:
            self.gradients = {
                f"grad.{name.removeprefix('module.')}": parameter.grad.clone()
                for name, parameter in kwargs["model"].named_parameters()
                if parameter.grad is not None
            }


def distributed(model: Path, output: Path) -> None:
    """One step's loss and gradients, and whether a resumed run ends like an uninterrupted one."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    schedule = Schedule(
        epochs=2,
        batch_size=8 // world,
        clip=None,
        learning_rate=1e-3,
        checkpoint_every=2,
        seed=3,
    )
    keep = KeepGradients()
    examples = toy_examples()
    module = toy_module(model, dropout=False)
    torch.manual_seed(schedule.seed)
    trainer = StageTrainer(module, examples, schedule, output / "whole", progress=False)
    trainer.add_callback(keep)
    trainer.train()
    whole = weights(module)

    module = toy_module(model, dropout=False)
    stop_at(module, 6, stopped)
    try:
        train_stage(module, examples, schedule, output / "resumed", progress=False)
    except StoppedError:
        trainer.accelerator.wait_for_everyone()
    module = toy_module(model, dropout=False)
    train_stage(module, examples, schedule, output / "resumed", resume=True, progress=False)
    if trainer.is_world_process_zero():
        losses = [(e["loss"], e["smooth_k2"]) for e in trainer.state.log_history if "loss" in e]
        save_file(keep.gradients, output / "gradients.safetensors")
        save_file(whole, output / "whole.safetensors")
        save_file(weights(module), output / "resumed.safetensors")
        save_file({"losses": torch.tensor(losses)}, output / "losses.safetensors")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def gathered(model: Path, output: Path) -> None:
    """One step's loss and gradients of objectives whose negatives are the batch."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    schedule = Schedule(
        max_steps=1, batch_size=8 // world, clip=None, seed=3, drop_last=True, checkpoint_every=1
    )
    contrasted = InfoNCE(temperature=0.5, negative_weight=0.7)
    cases: dict[str, tuple[TrainingModule, Any]] = {
        name: (
            contrastive_module(model, objective, sides=sides, projection=True, dropout=False),
            toy_texts(sides=sides),
        )
        for name, objective, sides in (
            ("info_nce", contrasted, 3),
            ("nt_xent", NTXent(temperature=0.5), 2),
        )
    }
    cases["cosent"] = toy_triples(model)
    for name, (module, examples) in cases.items():
        keep = KeepGradients()
        folder = output / name
        trainer = StageTrainer(module, examples, schedule, folder, progress=False)
        trainer.add_callback(keep)
        trainer.train()
        if trainer.is_world_process_zero():
            losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            found = {"losses": torch.tensor(losses), **keep.gradients}
            save_file(found, output / f"{name}.safetensors")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def toy_triples(model: Path) -> tuple[ConditionalModule, TripleExamples]:
    """Triples in groups of one or two, so that batches of a few groups differ in size."""
    encoder = tertium.load(model, engine="torch")
    assert isinstance(encoder, Encoder)
    shape = ModelShape(encoder.dimension, 32, 4, 3)
    conditional = ConditionalModel(encoder, CONDITIONAL_HEADS["bi"](shape))
    module = ConditionalModule(conditional, {"cosent": WeightedObjective(CoSent(temperature=0.5))})
    texts = [(*pair, WORDS[at]) for at, pair in enumerate(toy_examples(24).texts)]
    groups, at = [], 0
    while at < len(texts):
        size = min(1 + (len(groups) % 3 == 0), len(texts) - at)
        groups.append(tuple(range(at, at + size)))
        at += size
    labels = [at % 5 / 4 for at in range(len(texts))]
    without_dropout(module)
    return module, TripleExamples(texts, labels, groups=tuple(groups))


def queued(model: Path, output: Path) -> None:
    """What a queue holds after three steps, in every process."""
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    schedule = Schedule(
        max_steps=3, batch_size=8 // world, clip=None, seed=3, drop_last=True, checkpoint_every=3
    )
    momentum = {"size": 20, "decay": 0.5, "dropout": 0.0}
    module = contrastive_module(
        model, InfoNCE(temperature=0.5), momentum=momentum, projection=True, dropout=False
    )
    trainer = StageTrainer(module, toy_texts(), schedule, output / "run", progress=False)
    trainer.train()
    assert module.momentum is not None
    save_file(weights(module.momentum), output / f"queue-{rank}.safetensors")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def towers_together(model: Path, output: Path) -> None:
    """Three steps' losses and the first one's gradients of a twin."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    schedule = Schedule(
        max_steps=3, batch_size=8 // world, clip=None, seed=3, drop_last=True, checkpoint_every=1
    )
    objectives = [TowerContrast(), CrossTowerContrast(cross_layers=3), ModulusConstraint()]
    module = contrastive_module(model, *objectives, dropout=False)
    keep = KeepGradients()
    trainer = StageTrainer(module, toy_texts(), schedule, output / "run", progress=False)
    trainer.add_callback(keep)
    trainer.train()
    if trainer.is_world_process_zero():
        losses = [
            [entry[name] for name in ("tower_nce", "icnce", "ictm")]
            for entry in trainer.state.log_history
            if "loss" in entry
        ]
        found = {"losses": torch.tensor(losses), **keep.gradients}
        save_file(found, output / "towers.safetensors")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def killed(model: Path, output: Path, *, at: int) -> None:
    """Ends with the process, in that step."""
    module = toy_module(model)
    stop_at(module, at, die)
    train_stage(module, toy_examples(), RESUMABLE, output, select=selection(module))
