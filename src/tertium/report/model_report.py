"""Measures one model on all sets and inspects it; only the results stay in memory."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tertium.analysis import (
    AttentionMaps,
    Augmented,
    PairInformation,
    Sinks,
    attention_histograms,
    attention_sinks,
    drop_by_attention,
    inspect_encoders,
    layer_energies,
    pair_information,
    sentence_attention,
)
from tertium.data.overlap import pair_key
from tertium.errors import TertiumError
from tertium.evaluation.leaks import find_excluded
from tertium.evaluation.tasks.base import EmbeddingCache
from tertium.evaluation.tasks.contrast import contrast_values
from tertium.evaluation.tasks.sts import space_geometry
from tertium.explain import Focus, attending_part, focus
from tertium.models import Embedder, Encoder, Model
from tertium.models.surgery import tower_encoders
from tertium.report.data import GradedSet
from tertium.report.page import Broken, LeftOut
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Kind, TextTriple
from tertium.views import AttentionDropout
from tertium.views.attention_dropout import Aggregation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "VIEWED_TEXTS",
    "EncoderLook",
    "Facts",
    "ModelReport",
    "NamedEncoder",
    "Reallocation",
    "Scoring",
    "facts_of",
    "labels_of",
    "look_at",
    "parts_of",
    "reallocations",
    "report_on",
]

T = TypeVar("T")

VIEWED_TEXTS = 64  # one batch per view
_GEOMETRY_PAIRS = 2000  # the cost is quadratic
_DROPPED = 4  # tokens to drop
_RESAMPLES = 1000  # for intervals of contrasts
_TRIPLES = 2  # the user's triples whose attention is shown
_TRIPLE: TextTriple = (
    "A boy in a red shirt throws a ball on the beach.",
    "A man in a blue coat throws a stick in the park.",
    "the colour of the clothes",
)


@dataclass(frozen=True)
class NamedEncoder:
    """One transformer of a model."""

    label: str
    encoder: Encoder


@dataclass
class EncoderLook:
    """Attention and energy of one transformer; what is unavailable is None, with a reason."""

    label: str
    maps: AttentionMaps | None = None
    sinks: Sinks | None = None
    energy: tuple[float, ...] | None = None
    information: PairInformation | None = None
    histograms: "Figure | None" = None
    dropped: dict[str, Augmented] | None = None
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True)
class Reallocation:
    """Attention under a condition, before and after."""

    label: str
    triple: TextTriple
    found: Focus


def parts_of(model: Model, label: str) -> list[NamedEncoder]:
    """Every transformer of a model, with a name of its own; a static model has none."""
    encoders = model.encoders
    found: list[NamedEncoder] = []
    for number, encoder in enumerate(encoders, 1):
        own = label if len(encoders) == 1 else f"{label}, part {number}"
        if not encoder.parts:
            continue
        if encoder.kind is Kind.TWIN:
            towers = zip(("tower I", "tower II"), tower_encoders(encoder), strict=True)
            found += [NamedEncoder(f"{own}, {name}", tower) for name, tower in towers]
        else:
            found.append(NamedEncoder(own, encoder))
    return found


def look_at(
    part: NamedEncoder,
    *,
    texts: Sequence[str],
    sentence: str,
    seed: int,
    progress: bool | None = None,
) -> EncoderLook:
    """Inspect one transformer."""
    encoder, look = part.encoder, EncoderLook(part.label)
    few = texts[:VIEWED_TEXTS]

    def attempt(section: str, made: Callable[[], T]) -> T | None:
        """Record why something does not apply to this transformer."""
        try:
            return made()
        except TertiumError as error:
            look.left_out.append(LeftOut(section, part.label, str(error)))
            return None

    look.maps = attempt("attention", lambda: sentence_attention(encoder, sentence))
    look.sinks = attempt("attention", lambda: attention_sinks(encoder, texts, progress=progress))
    look.energy = attempt("energy", lambda: _energy(encoder, texts, progress=progress))
    look.information = attempt("views", lambda: pair_information(encoder, few, seed=seed))
    look.histograms = attempt("views", lambda: attention_histograms(encoder, few, seed=seed))
    look.dropped = attempt("dropped", lambda: _dropped(encoder, sentence))
    return look


def reallocations(
    model: Model, label: str, own: GradedSet | None
) -> tuple[list[Reallocation], list[LeftOut]]:
    """How conditions move a model's attention, on the user's triples or our own."""
    part = attending_part(model)
    triples = [_TRIPLE] if own is None else own.triples[:_TRIPLES]
    try:
        return [Reallocation(label, triple, focus(part, triple)) for triple in triples], []
    except TertiumError as error:
        return [], [LeftOut("conditions", label, str(error))]


def _energy(encoder: Encoder, texts: Sequence[str], *, progress: bool | None) -> tuple[float, ...]:
    return tuple(layer_energies(encoder, texts, progress=progress).tolist())


def _dropped(encoder: Encoder, sentence: str) -> dict[str, Augmented]:
    vocabulary = read_vocabulary(encoder.tokenizer)
    return {
        str(aggregation): drop_by_attention(
            encoder,
            AttentionDropout(vocabulary, aggregation=aggregation, k=_DROPPED, t=0),
            sentence,
        )
        for aggregation in Aggregation
    }


@dataclass(frozen=True)
class Facts:
    """Properties of a model.

    Attributes:
        kind: its kind in ``tertium.json``.
        pooling: its pooling.
        dimension: width of an embedding; None for a model without embeddings.
        scale: lowest and highest score.
        backbones: number of transformers that read each text.
        parameters: number of parameters of the whole model.
        macs: multiply-accumulates for a text of 32 tokens; None if unknown.
        sha256: hash of everything that determines its scores.
        training_data: training data on its card.
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
    """Short names of the models: the last part of each name, if unique.

    >>> labels_of(["default", "runs/a/model", "runs/b/model", "runs/c"])
    ['default', 'runs/a/model', 'runs/b/model', 'c']
    """
    if len(set(names)) < len(names):
        raise TertiumError(f"Give each model only once: {', '.join(names)}.")
    last = [Path(name).name or name for name in names]
    return [
        short if last.count(short) == 1 else name for name, short in zip(names, last, strict=True)
    ]


def facts_of(model: Model, parts: Sequence[NamedEncoder]) -> Facts:
    """Properties of a model for the table of models."""
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


def _macs(parts: Sequence[NamedEncoder]) -> int | None:
    """The cost of one text, for architectures whose cost formula is known."""
    known = ("num_hidden_layers", "hidden_size", "intermediate_size")
    configs: list[Any] = [part.encoder.backbone.config for part in parts]
    if not parts or any(not hasattr(config, name) for config in configs for name in known):
        return None
    return inspect_encoders([part.encoder for part in parts]).macs


@dataclass(frozen=True)
class Scoring:
    """A model's cosines or scores on all sets.

    Attributes:
        name: name of the model, with the kind of value if it has two.
        by: ``cosine`` or ``score``.
        values: one value per pair, by set.
        scale: lowest and highest value.
    """

    name: str
    by: str
    values: dict[str, NDArray[np.float64]]
    scale: tuple[float, float]


@dataclass
class ModelReport:
    """The results of one model.

    Attributes:
        name: its name as given.
        label: its name on the page.
        facts: its properties.
        scorings: its cosines and scores on the sets.
        geometry: measures of its embedding space, on the main set.
        contrast: its sensitivity to small changes of meaning.
        seen: by set, which pairs are in its training data.
        parts: inspections of its transformers.
        reallocations: how conditions move its attention.
        left_out: what does not apply to it.
        broken: what failed.
        seconds: wall time.
    """

    name: str
    label: str
    facts: Facts
    scorings: list[Scoring] = field(default_factory=list)
    geometry: dict[str, float] | None = None
    contrast: dict[str, Any] | None = None
    seen: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    parts: list[EncoderLook] = field(default_factory=list)
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
    """Measure and inspect a model.

    Args:
        model: any model from :func:`tertium.load`.
        name: its name as given.
        label: its name on the page.
        sets: graded sets.
        main: the set for figures.
        texts: texts to measure attention on.
        sentence: the sentence for attention maps.
        folder: benchmark folder, for the pairs that the model has seen.
        seed: random seed of dropout and of sampled positions.
        progress: False for no progress on standard error.
        step: called when the model is measured, and when it is inspected.
    """
    start = time.perf_counter()
    parts = parts_of(model, label)
    found = ModelReport(name, label, facts_of(model, parts))
    cache = EmbeddingCache(model, progress=progress)
    found.scorings = _scorings(model, cache, label, sets)
    _leaks(found, model, sets, folder)
    step()
    if main is not None and isinstance(model.vector_model, Embedder):
        found.geometry = _geometry(cache, main)
    if model.takes_conditions:
        reason = "it takes conditions, but contrasts are pairs without conditions."
        found.left_out.append(LeftOut("contrast", label, reason))
    else:
        found.contrast = contrast_values(cache, resamples=_RESAMPLES, seed=seed)
    if not parts:
        reason = "it is static: without a transformer there is no attention."
        found.left_out.append(LeftOut("attention", label, reason))
    for part in parts:
        with _recording(found, label, "inspecting its attention"):
            look = look_at(part, texts=texts, sentence=sentence, seed=seed, progress=progress)
            found.parts.append(look)
            found.left_out += look.left_out
    if model.takes_conditions:
        with _recording(found, label, "inspecting its reallocation"):
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
    """Cosines of an embedder, and scores of a model that grades pairs or triples."""
    if model.takes_conditions:
        graded = {one.name: cache.scores(one.triples) for one in sets if one.conditions is not None}
        return [Scoring(label, "score", graded, model.scale)]
    found = []
    if isinstance(model.vector_model, Embedder):
        by_cosine = {one.name: cache.cosines(one.pairs) for one in sets}
        found.append(Scoring(label, "cosine", by_cosine, (-1.0, 1.0)))
    if model.kind is Kind.PAIR or model.reads_together:
        graded = {one.name: cache.scores(one.pairs) for one in sets if one.conditions is None}
        found.append(Scoring(f"{label} (score)", "score", graded, model.scale))
    return found


def _leaks(
    found: ModelReport, model: Model, sets: Sequence[GradedSet], folder: Path | None
) -> None:
    """Mark pairs that are in the training data on the model's card, if the benchmarks are here."""
    if folder is None or not model.training_data:
        return
    excluded, keys = find_excluded((), model.training_data, folder=folder)
    if excluded:
        found.seen = {
            one.name: np.array([pair_key(a, b) in keys for a, b in one.pairs]) for one in sets
        }


def _geometry(cache: EmbeddingCache, main: GradedSet) -> dict[str, float]:
    """The measures of the suite ``geometry``, on the main set."""
    rows = slice(0, _GEOMETRY_PAIRS)
    first, second = (cache.embed(side[rows]) for side in (main.first, main.second))
    return space_geometry(first, second, main.close[rows])


@contextmanager
def _recording(found: ModelReport, label: str, doing: str) -> Iterator[None]:
    """Record a failure for the page, and go on with the rest of the model."""
    try:
        yield
    except Exception as error:  # one figure must not lose a report of hours
        found.broken.append(Broken(label, doing, f"{type(error).__name__}: {error}"))
