"""One way in: a reserved name, a folder or a hub id gives the right object for its kind."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertium.engines import check_device
from tertium.engines.attach import with_engine
from tertium.errors import TertiumError, unknown_name
from tertium.models import ENCODERS, Encoder
from tertium.models.average import ConditionalAverage
from tertium.models.conditional import ConditionalScorer
from tertium.models.ensemble import Ensemble
from tertium.models.grading import TripleGrader
from tertium.models.names import resolve, resolve_base
from tertium.models.pair import PairScorer
from tertium.models.static import is_static
from tertium.records.manifest import FILE_NAME, MemberEntry, read_manifest, read_members
from tertium.types import EngineName, Kind, Pooling

__all__ = ["load", "load_conditional", "load_embedder"]

_DEEPEST = 8  # adapters on adapters and averages of averages

# What ``load`` returns, by the kind that ``tertium.json`` names.
KINDS: dict[str, type[Encoder] | type[PairScorer] | type[Ensemble] | type[ConditionalScorer]] = {
    **ENCODERS,
    Kind.PAIR: PairScorer,
    Kind.CONDITIONAL: ConditionalScorer,
    Kind.ENSEMBLE: Ensemble,
}


def load(
    name: str | os.PathLike[str] = "default",
    *,
    pooling: Pooling | str | None = None,
    device: str | None = None,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    engine: EngineName | str = EngineName.TORCH,
    threads: int | None = None,
) -> Encoder | PairScorer | Ensemble | TripleGrader:
    """Load a model.

    Args:
        name: a reserved name (``default``, ``sts``, ``conditional``), a folder (anything with a
            path separator, or that exists) in the layout of tertium, sentence-transformers or
            transformers, or a hub id.
        pooling: use this pooling instead of the saved one; without either, published models
            (``tertium.models.published``) have that of their papers.
        device: torch device (default: the best there is).
        max_length: read at most this many tokens of a text.
        revision: branch, tag or commit of a hub model.
        trust_remote_code: run code that comes with the model.
        engine: ``torch``, ``onnx``, ``onnx-int8``, ``openvino``, ``openvino-int8``, ``static`` or
            ``auto``, what ``tertium tune`` found best; a graph is exported on first use.
        threads: of an engine other than torch (default: as many as torch has).

    Example:
        >>> import tertium
        >>> round(float(tertium.load().score([("A cat sleeps.", "A cat is asleep.")])[0]), 1)
        0.9
    """
    device = check_device(engine, device)
    folder = resolve(name, revision=revision)
    options: dict[str, Any] = {
        "pooling": None if pooling is None else _pooling(pooling),
        "device": device,
        "max_length": max_length,
        "trust_remote_code": trust_remote_code,
    }
    try:
        loaded = _load(folder, name=str(name), **options)
    except TertiumError:
        raise
    except Exception as error:  # files of any content end in errors of many kinds
        first = str(error).strip().partition("\n")[0]
        reason = first if isinstance(error, OSError | ValueError) else repr(error)
        raise TertiumError(
            f"{folder} holds no model that can be loaded: {reason or repr(error)}"
        ) from error
    return with_engine(loaded, engine, threads=threads, folder=folder)


def _load(
    folder: Path, *, name: str, above: tuple[Path, ...] = (), **options: Any
) -> Encoder | PairScorer | Ensemble | TripleGrader:
    """A model that is whole, an adapter on its base, or an average of conditional models.

    ``above`` are the models that led here, outermost first.
    """
    if folder in above or len(above) > _DEEPEST:
        raise TertiumError(
            f"{above[0] / FILE_NAME}: its bases and members lead back to the model itself, or too "
            "deep. Fetch the model again."
        )
    manifest = read_manifest(folder)
    plain = Kind.STATIC if is_static(folder) else Kind.ENCODER
    kind = manifest.kind if manifest else plain
    details = manifest.details if manifest else {}
    if manifest and kind is Kind.CONDITIONAL and "members" in details:
        members = read_members(folder, manifest)
        return _load_average(folder, members, name=name, above=(*above, folder), **options)
    if "base" in details:
        return _load_adapter(folder, kind, details, name=name, above=(*above, folder), **options)
    return KINDS[kind].load(folder, name=name, **options)


def _load_adapter(
    folder: Path,
    kind: Kind,
    details: dict[str, Any],
    *,
    pooling: Pooling | None,
    max_length: int | None,
    **options: Any,
) -> PairScorer | ConditionalScorer:
    """What differs from a base, which may be an adapter itself, on that base."""
    length = max_length or details.get("max_length")
    base = _load(resolve_base(folder, details), pooling=None, max_length=length, **options)
    encoder = base.encoder if isinstance(base, PairScorer | ConditionalScorer) else base
    if not isinstance(encoder, Encoder):
        raise TertiumError(f"{folder / FILE_NAME}: '{details['base']}' is not a single encoder.")
    adapted = ConditionalScorer if kind is Kind.CONDITIONAL else PairScorer
    return adapted.load_adapter(folder, encoder, pooling=pooling)


def _load_average(
    folder: Path, entries: Sequence[tuple[Path, MemberEntry]], *, name: str, **options: Any
) -> ConditionalAverage:
    members = [_load(place, name=entry.name, **options) for place, entry in entries]
    taking = [member for member in members if isinstance(member, TripleGrader)]
    if len(taking) < len(members):
        raise TertiumError(f"{folder}: a member of this average takes no conditions.")
    return ConditionalAverage(taking, weights=[entry.weight for _, entry in entries], name=name)


def load_embedder(
    name: str | os.PathLike[str] = "default", **options: Any
) -> Encoder | PairScorer | Ensemble:
    """Load a model that must give vectors; takes the options of :func:`load`."""
    loaded = load(name, **options)
    if isinstance(loaded, TripleGrader):
        raise TertiumError(
            f"{loaded.name} compares sentences under a condition and gives no vectors. Name an "
            "encoder, such as default, or the folder 'encoder' inside it."
        )
    return loaded


def load_conditional(name: str | os.PathLike[str] = "conditional", **options: Any) -> TripleGrader:
    """Load a model that must take conditions, by default the one that ships; options of load."""
    loaded = load(name, **options)
    if not isinstance(loaded, TripleGrader):
        raise TertiumError(
            f"The model '{name}' does not take conditions. 'conditional' does, and so do models of "
            "recipes such as seaver-minilm."
        )
    return loaded


def _pooling(name: Pooling | str) -> Pooling:
    try:
        return Pooling(name)
    except ValueError:
        raise unknown_name("pooling", str(name), [str(p) for p in Pooling]) from None
