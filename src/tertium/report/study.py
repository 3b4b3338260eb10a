"""One model, measured on all sets and looked into; nothing of it stays in memory but figures."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tertium.data.overlap import pair_key
from tertium.errors import TertiumError
from tertium.evaluation.context import Memory
from tertium.evaluation.leaks import Excluded, find_excluded
from tertium.evaluation.metrics import cosines
from tertium.functional import alignment, anisotropy, effective_rank, uniformity
from tertium.models import PairScorer, TripleGrader
from tertium.report.look import PartLook, Reallocation, look_at, reallocations
from tertium.report.models import Facts, Model, facts_of, parts_of
from tertium.report.parts import Broken, LeftOut
from tertium.report.sets import GradedSet

__all__ = ["Reading", "Study", "study"]

_GEOMETRY_PAIRS = 2000  # all pairs of sentences are compared, so more of them grow fast


@dataclass(frozen=True)
class Reading:
    """What a model says of the sets in one way.

    Attributes:
        name: of the model, with the way if it has two.
        model: its label.
        by: ``cosine`` or ``score``.
        values: by set, one per pair.
        scale: lowest and highest value.
    """

    name: str
    model: str
    by: str
    values: dict[str, NDArray[np.float64]]
    scale: tuple[float, float]


@dataclass
class Study:
    """All that the page says about one model.

    Attributes:
        name: as it was given.
        label: what the page calls it.
        facts: what it is.
        readings: what it says of the sets.
        geometry: of its space, on the main set.
        excluded: data of its card whose pairs the leak-free figures leave out.
        seen: by set, which pairs are among them.
        parts: looks at its transformers.
        reallocations: looks at how conditions move its attention.
        left_out: what does not apply to it, or cannot be had.
        broken: what failed.
        seconds: wall time.
    """

    name: str
    label: str
    facts: Facts
    readings: list[Reading] = field(default_factory=list)
    geometry: dict[str, float] | None = None
    excluded: tuple[Excluded, ...] = ()
    seen: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    parts: list[PartLook] = field(default_factory=list)
    reallocations: list[Reallocation] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    seconds: float = 0.0


def study(
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
    step: Callable[[str], None] = lambda what: None,
) -> Study:
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
        step: hears what is done.
    """
    start = time.perf_counter()
    parts = parts_of(model, label)
    found = Study(name, label, facts_of(model, parts))
    memory = Memory(model, progress=progress)
    found.readings = _readings(model, memory, label, sets, progress=progress)
    _leaks(found, model, sets, folder)
    step("measured")
    if main is not None and not isinstance(model, TripleGrader):
        found.geometry = _geometry(memory, main)
    if not parts:
        reason = "it is static and has no transformer: there is no attention to look into."
        found.left_out.append(LeftOut("attention", label, reason))
    for part in parts:
        with _told(found, label, "looking into its attention"):
            look = look_at(part, texts=texts, sentence=sentence, seed=seed, progress=progress)
            found.parts.append(look)
            found.left_out += look.left_out
    if isinstance(model, TripleGrader):
        with _told(found, label, "looking at its reallocation"):
            shown = next((s for s in sets if s.conditions is not None and s.may_be_shown), None)
            made, left_out = reallocations(model, label, shown)
            found.reallocations += made
            found.left_out += left_out
    found.seconds = time.perf_counter() - start
    step("looked into")
    return found


def _readings(
    model: Model,
    memory: Memory,
    label: str,
    sets: Sequence[GradedSet],
    *,
    progress: bool | None,
) -> list[Reading]:
    """Cosines of an embedder, and scores of what grades pairs or triples."""
    if isinstance(model, TripleGrader):
        taken = [one for one in sets if one.conditions is not None]
        scores = {one.name: memory.similarities(one.triples) for one in taken}
        return [Reading(label, label, "score", _checked(label, scores), model.scale)]
    by_cosine = {
        one.name: cosines(memory.embed(list(one.first)), memory.embed(list(one.second)))
        for one in sets
    }
    found = [Reading(label, label, "cosine", by_cosine, (-1.0, 1.0))]
    if isinstance(model, PairScorer):
        plain = [one for one in sets if one.conditions is None]
        scores = {
            one.name: np.asarray(model.score(one.pairs, progress=progress), dtype=float)
            for one in plain
        }
        name = f"{label} (score)"
        found.append(Reading(name, label, "score", _checked(label, scores), model.scale))
    return found


def _checked(label: str, values: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    for name, scores in values.items():
        if not np.isfinite(scores).all():
            raise TertiumError(f"{label} gives scores that are not finite on {name}.")
    return values


def _leaks(found: Study, model: Model, sets: Sequence[GradedSet], folder: Path | None) -> None:
    """Which pairs the model's card says it has seen; without benchmark data, none is known."""
    if folder is None or not model.training_data:
        return
    found.excluded, keys = find_excluded((), model.training_data, folder=folder)
    if found.excluded:
        found.seen = {
            one.name: np.array([pair_key(a, b) in keys for a, b in one.pairs]) for one in sets
        }


def _geometry(memory: Memory, main: GradedSet) -> dict[str, float]:
    """As the suite ``geometry`` measures STS-B, on the main set."""
    rows = slice(0, _GEOMETRY_PAIRS)
    first = torch.from_numpy(memory.embed(list(main.first[rows]))).double()
    second = torch.from_numpy(memory.embed(list(main.second[rows]))).double()
    close = torch.from_numpy(main.close[rows])
    everything = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    return {
        "alignment": float(alignment(first[close], second[close])),
        "uniformity": float(uniformity(everything)),
        "anisotropy": float(anisotropy(everything)),
        "effective_rank": float(effective_rank(everything)),
        "positives": int(close.sum()),
        "sentences": len(everything),
    }


@contextmanager
def _told(found: Study, label: str, doing: str) -> Iterator[None]:
    """What fails in a look is told on the page, and the rest of the model is still there."""
    try:
        yield
    except Exception as error:  # a page of hours is not lost to one picture
        found.broken.append(Broken(label, doing, f"{type(error).__name__}: {error}"))
