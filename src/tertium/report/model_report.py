"""One model, measured on all sets and looked into; only figures of it stay in memory."""

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

VIEWED_TEXTS = 64  # two views of all of them are one batch each
_GEOMETRY_PAIRS = 2000  # all pairs of sentences are compared, so more of them grow fast
_DROPPED = 4  # tokens
_RESAMPLES = 1000  # of contrasts, for their intervals
_TRIPLES = 2  # of the user, whose attention is shown
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
    """What can be seen of one transformer; what cannot is None, with a reason."""

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
    """All looks at one transformer."""
    encoder, look = part.encoder, EncoderLook(part.label)
    few = texts[:VIEWED_TEXTS]

    def attempt(section: str, made: Callable[[], T]) -> T | None:
        """What does not apply to a transformer says so in a sentence."""
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
    """How conditions move a model's attention, on triples of the user or one of ours."""
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


def facts_of(model: Model, parts: Sequence[NamedEncoder]) -> Facts:
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


def _macs(parts: Sequence[NamedEncoder]) -> int | None:
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
        contrast: which small changes of meaning it hears.
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
    if main is not None and isinstance(model.vector_model, Embedder):
        found.geometry = _geometry(cache, main)
    if model.takes_conditions:
        reason = "it takes conditions, and contrasts are pairs without one."
        found.left_out.append(LeftOut("contrast", label, reason))
    else:
        found.contrast = contrast_values(cache, resamples=_RESAMPLES, seed=seed)
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
