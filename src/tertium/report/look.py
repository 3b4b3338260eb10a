"""Looks into one transformer of a model, and at what conditions do to attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tertium.analysis import (
    AttentionMaps,
    Augmented,
    PairInformation,
    Sinks,
    attention_histograms,
    attention_sinks,
    drop_by_attention,
    layer_energies,
    pair_information,
    sentence_attention,
)
from tertium.errors import TertiumError
from tertium.explain import Focus, attending_part, focus
from tertium.models import Encoder, Model
from tertium.models.surgery import tower_encoders
from tertium.report.data import GradedSet
from tertium.report.page import LeftOut
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Kind, TextTriple
from tertium.views import AttentionDropout
from tertium.views.attention_dropout import Aggregation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "VIEWED_TEXTS",
    "Part",
    "PartLook",
    "Reallocation",
    "look_at",
    "parts_of",
    "reallocations",
]

T = TypeVar("T")

VIEWED_TEXTS = 64  # two views of all of them are one batch each
_DROPPED = 4
_TRIPLES = 2
_TRIPLE: TextTriple = (
    "A boy in a red shirt throws a ball on the beach.",
    "A man in a blue coat throws a stick in the park.",
    "the colour of the clothes",
)


@dataclass(frozen=True)
class Part:
    """One transformer of a model."""

    label: str
    encoder: Encoder


@dataclass
class PartLook:
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


def parts_of(model: Model, label: str) -> list[Part]:
    """Every transformer of a model, with a name of its own; a static model has none."""
    encoders = model.encoders
    found: list[Part] = []
    for number, encoder in enumerate(encoders, 1):
        own = label if len(encoders) == 1 else f"{label}, part {number}"
        if not encoder.parts:
            continue
        if encoder.kind is Kind.TWIN:
            towers = zip(("tower I", "tower II"), tower_encoders(encoder), strict=True)
            found += [Part(f"{own}, {name}", tower) for name, tower in towers]
        else:
            found.append(Part(own, encoder))
    return found


def look_at(
    part: Part, *, texts: Sequence[str], sentence: str, seed: int, progress: bool | None = None
) -> PartLook:
    """All looks at one transformer."""
    encoder, look = part.encoder, PartLook(part.label)
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
    encoder, head = attending_part(model)
    triples = [_TRIPLE] if own is None else own.triples[:_TRIPLES]
    try:
        return [
            Reallocation(label, triple, focus(encoder, triple, head=head)) for triple in triples
        ], []
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
