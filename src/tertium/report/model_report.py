"""One model, measured on all sets and looked into; only figures of it stay in memory."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tertium.analysis import inspect_encoders
from tertium.data.overlap import pair_key
from tertium.errors import TertiumError
from tertium.evaluation.leaks import find_excluded
from tertium.evaluation.tasks.base import EmbeddingCache
from tertium.evaluation.tasks.sts import space_geometry
from tertium.models import Embedder, Model
from tertium.report.data import GradedSet
from tertium.report.look import (
    Part,
    PartLook,
    Reallocation,
    look_at,
    parts_of,
    reallocations,
)
from tertium.report.page import Broken, LeftOut
from tertium.types import Kind

__all__ = [
    "Facts",
    "ModelReport",
    "Scoring",
    "facts_of",
    "labels_of",
    "report_on",
]

_GEOMETRY_PAIRS = 2000  # all pairs of sentences are compared, so more of them grow fast


@dataclass(frozen=True)
class Facts:
    """What a model is.

    Attributes:
        kind: as ``tertium.json`` names it.
        pooling: how tokens become a vector.
        dimension: width of an embedding; None for a model that gives none.
        scale: lowest and highest score.
        backbones: transformers that read each text.
        parameters: of the whole model.
        macs: multiply-accumulates for a text of 32 tokens; None where they cannot be counted.
        sha256: of all that decides about its scores.
        training_data: what its card lists.
    """

    kind: str
    pooling: str | None
    dimension: int | None
    scale: tuple[float, float]
    backbones: int
    parameters: int
    macs: int | None
    sha256: str
    training_data: tuple[str, ...]


def labels_of(names: Sequence[str]) -> list[str]:
    """What the page calls each model: the last part of its name, if that is enough.

    >>> labels_of(["default", "runs/a/model", "runs/b/model", "runs/c"])
    ['default', 'runs/a/model', 'runs/b/model', 'c']
    """
    if len(set(names)) < len(names):
        raise TertiumError(f"Name every model once: {', '.join(names)}.")
    last = [Path(name).name or name for name in names]
    return [
        short if last.count(short) == 1 else name for name, short in zip(names, last, strict=True)
    ]


def facts_of(model: Model, parts: Sequence[Part]) -> Facts:
    """What the table of models says of it."""
    pooling = model.pooling
    training_data = dict.fromkeys(
        f"{data.name} {data.split or ''} ({data.use})".replace("  ", " ")
        for data in model.training_data
    )
    return Facts(
        kind=str(model.kind),
        pooling=None if pooling is None else str(pooling),
        dimension=model.dimension if isinstance(model, Embedder) else None,
        scale=model.scale,
        backbones=len(parts),
        parameters=sum(p.numel() for module in _modules(model) for p in module.parameters()),
        macs=_macs(parts),
        sha256=model.fingerprint,
        training_data=tuple(training_data),
    )


def _modules(model: Model) -> Iterator[nn.Module]:
    for encoder in model.encoders:
        yield encoder.model
    owners = [model, *(member.model for member in model.members if member.model is not model)]
    for owner in owners:
        head = getattr(owner, "head", None)
        if isinstance(head, nn.Module):
            yield head


def _macs(parts: Sequence[Part]) -> int | None:
    """The cost of one text, for architectures whose cost formula is known."""
    known = ("num_hidden_layers", "hidden_size", "intermediate_size")
    configs: list[Any] = [part.encoder.backbone.config for part in parts]
    if not parts or any(not hasattr(config, name) for config in configs for name in known):
        return None
    return inspect_encoders([part.encoder for part in parts]).macs


@dataclass(frozen=True)
class Scoring:
    """What a model says of the sets in one way.

    Attributes:
        name: of the model, with the way if it has two.
        by: ``cosine`` or ``score``.
        values: by set, one per pair.
        scale: lowest and highest value.
    """

    name: str
    by: str
    values: dict[str, NDArray[np.float64]]
    scale: tuple[float, float]


@dataclass
class ModelReport:
    """All that the page says about one model.

    Attributes:
        name: as it was given.
        label: what the page calls it.
        facts: what it is.
        scorings: what it says of the sets.
        geometry: of its space, on the main set.
        seen: by set, which pairs are among the data that its card lists.
        parts: looks at its transformers.
        reallocations: looks at how conditions move its attention.
        left_out: what does not apply to it, or cannot be had.
        broken: what failed.
        seconds: wall time.
    """

    name: str
    label: str
    facts: Facts
    scorings: list[Scoring] = field(default_factory=list)
    geometry: dict[str, float] | None = None
    seen: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    parts: list[PartLook] = field(default_factory=list)
    reallocations: list[Reallocation] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    seconds: float = 0.0


def report_on(
    model: Model,
    *,
    name: str,
    label: str,
    sets: Sequence[GradedSet],
    main: GradedSet | None,
    texts: Sequence[str],
    sentence: str,
    folder: Path | None,
    seed: int,
    progress: bool | None = None,
    step: Callable[[], Any] = lambda: None,
) -> ModelReport:
    """Measure a model and look into it.

    Args:
        model: any that :func:`tertium.load` gives.
        name: as it was given.
        label: what the page calls it.
        sets: graded data.
        main: the one that pictures are drawn of.
        texts: to look at attention on.
        sentence: whose attention maps are drawn.
        folder: benchmark folder, for the pairs that the model has seen.
        seed: of dropout and of sampled positions.
        progress: False for no progress on standard error.
        step: called when the model is measured, and when it is looked into.
    """
    start = time.perf_counter()
    parts = parts_of(model, label)
    found = ModelReport(name, label, facts_of(model, parts))
    cache = EmbeddingCache(model, progress=progress)
    found.scorings = _scorings(model, cache, label, sets)
    _leaks(found, model, sets, folder)
    step()
    if main is not None and not model.takes_conditions:
        found.geometry = _geometry(cache, main)
    if not parts:
        reason = "it is static and has no transformer: there is no attention to look into."
        found.left_out.append(LeftOut("attention", label, reason))
    for part in parts:
        with _recording(found, label, "looking into its attention"):
            look = look_at(part, texts=texts, sentence=sentence, seed=seed, progress=progress)
            found.parts.append(look)
            found.left_out += look.left_out
    if model.takes_conditions:
        with _recording(found, label, "looking at its reallocation"):
            shown = next((s for s in sets if s.conditions is not None and s.may_be_shown), None)
            made, left_out = reallocations(model, label, shown)
            found.reallocations += made
            found.left_out += left_out
    found.seconds = time.perf_counter() - start
    step()
    return found


def _scorings(
    model: Model, cache: EmbeddingCache, label: str, sets: Sequence[GradedSet]
) -> list[Scoring]:
    """Cosines of an embedder, and scores of what grades pairs or triples."""
    if model.takes_conditions:
        graded = {one.name: cache.scores(one.triples) for one in sets if one.conditions is not None}
        return [Scoring(label, "score", graded, model.scale)]
    by_cosine = {one.name: cache.cosines(one.pairs) for one in sets}
    found = [Scoring(label, "cosine", by_cosine, (-1.0, 1.0))]
    if model.kind is Kind.PAIR:
        graded = {one.name: cache.scores(one.pairs) for one in sets if one.conditions is None}
        found.append(Scoring(f"{label} (score)", "score", graded, model.scale))
    return found


def _leaks(
    found: ModelReport, model: Model, sets: Sequence[GradedSet], folder: Path | None
) -> None:
    """Which pairs the model's card says it has seen; without benchmark data, none is known."""
    if folder is None or not model.training_data:
        return
    excluded, keys = find_excluded((), model.training_data, folder=folder)
    if excluded:
        found.seen = {
            one.name: np.array([pair_key(a, b) in keys for a, b in one.pairs]) for one in sets
        }


def _geometry(cache: EmbeddingCache, main: GradedSet) -> dict[str, float]:
    """As the suite ``geometry`` measures STS-B, on the main set."""
    rows = slice(0, _GEOMETRY_PAIRS)
    first, second = (cache.embed(side[rows]) for side in (main.first, main.second))
    return space_geometry(first, second, main.close[rows])


@contextmanager
def _recording(found: ModelReport, label: str, doing: str) -> Iterator[None]:
    """What fails in a look is reported on the page, and the rest of the model is still there."""
    try:
        yield
    except Exception as error:  # a page of hours is not lost to one picture
        found.broken.append(Broken(label, doing, f"{type(error).__name__}: {error}"))
