"""Load a model of any kind from a reserved name, a folder or a hub id."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tertium.errors import TertiumError, TertiumWarning, missing_extra, unknown_name
from tertium.files import check_new_folder
from tertium.models.adapters import adapted_encoder, kept_layers
from tertium.models.base import Embedder, Model, TripleScorer
from tertium.models.careful import FAST, JUDGE, CarefulScorer, Caution
from tertium.models.conditional import ConditionalScorer
from tertium.models.cross import CrossScorer
from tertium.models.light import load_encoder
from tertium.models.mixture import ConditionalAverage, Ensemble, member_weights
from tertium.models.names import NAMES, is_static, resolve, resolve_base, resolve_inner
from tertium.models.pair import PairScorer
from tertium.models.published_cross import is_cross_encoder, load_published
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import NotLightError
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    read_decision,
    read_manifest,
    read_members,
)
from tertium.types import Kind, Pooling

__all__ = [
    "KINDS",
    "as_conditional",
    "as_embedder",
    "average",
    "combine",
    "convert",
    "load",
    "shortened",
    "write_towers",
]

_DEEPEST = 8  # adapters on adapters and mixtures of mixtures


def _load_static(folder: Path, *, light: bool = False, **options: Any) -> Model:
    if light:
        from tertium.models.light_static import LightStatic

        del options["device"], options["trust_remote_code"]
        return LightStatic.load(folder, **options)
    from tertium.models.static import StaticEncoder

    return StaticEncoder.load(folder, **options)


def _load_cross(folder: Path, *, manifest: Manifest, **options: Any) -> Model:
    published = "head" not in manifest.details  # one that ``fit`` gave a decision
    load_it = load_published if published else CrossScorer.load
    return load_it(folder, manifest=manifest, **options)


# Loads a folder, by the kind that its ``tertium.json`` names. Mixtures and adapters are loaded
# below, since their parts may be of any kind.
KINDS: dict[Kind, Callable[..., Model]] = {
    Kind.ENCODER: load_encoder,
    Kind.TWIN: load_encoder,
    Kind.STATIC: _load_static,
    Kind.PAIR: PairScorer.load,
    Kind.CONDITIONAL: ConditionalScorer.load,
    Kind.CROSS: _load_cross,
}


# Models made from an adapter and the encoder of its base, by the adapter's kind.
_ADAPTED: dict[Kind, type[PairScorer] | type[ConditionalScorer] | type[CrossScorer]] = {
    Kind.PAIR: PairScorer,
    Kind.CONDITIONAL: ConditionalScorer,
    Kind.CROSS: CrossScorer,
}


def load(
    name: str | os.PathLike[str] = "default",
    *,
    pooling: Pooling | str | None = None,
    device: str | None = None,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    light: bool = False,
) -> Model:
    """Load a model to run on torch; see :func:`tertium.load`, which also takes an engine.

    With ``light`` it is read without torch, and needs an engine.

    Raises:
        NotLightError: the model cannot be read without torch.
    """
    folder = resolve(name, revision=revision)
    if trust_remote_code:
        warnings.warn(
            f"Python code that comes with {name} runs on this machine with your permissions, "
            "because trust_remote_code is set. Read it first: it can do anything that you can.",
            TertiumWarning,
            stacklevel=2,
        )
    options: dict[str, Any] = {
        "pooling": None if pooling is None else _pooling(pooling),
        "device": device,
        "max_length": max_length,
        "trust_remote_code": trust_remote_code,
        "light": light,
    }
    try:
        return _load(folder, name=str(name), **options)
    except TertiumError:
        raise
    except Exception as error:  # arbitrary files cause errors of many kinds
        missing = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            raise missing from error
        first = str(error).strip().partition("\n")[0]
        reason = first if isinstance(error, OSError | ValueError) else repr(error)
        kind = NotLightError if light else TertiumError
        raise kind(
            f"{folder} does not contain a model that can be loaded: {reason or repr(error)}"
        ) from error


def as_embedder(model: Model) -> Embedder:
    """The model that computes the vectors of ``model``: the model itself, or one inside it."""
    if model.takes_conditions or model.kind is Kind.CROSS:
        how = "under a condition" if model.takes_conditions else "by reading them together"
        raise TertiumError(
            f"{model.name} compares sentences {how} and gives no vectors. Name an "
            "encoder, such as default, or the folder 'encoder' inside it."
        )
    return cast(Embedder, model.vector_model)


def as_conditional(model: Model) -> TripleScorer:
    """``model``, which must take conditions."""
    if not model.takes_conditions:
        raise TertiumError(
            f"The model '{model.name}' does not take conditions. 'conditional' does, and so do "
            "models of recipes such as seaver-minilm."
        )
    return cast(TripleScorer, model)


def combine(
    models: Sequence[str | os.PathLike[str]],
    *,
    weight: float | None = None,
    pooling: Pooling | str | None = None,
    name: str | None = None,
) -> Ensemble:
    """The plain sum of models, or JTCSE-UC's weighted one.

    Args:
        models: anything that :func:`load` takes; of a model that grades, the encoder is used.
        weight: weight of the last model; the others have 1 minus it (default: the plain sum).
        pooling: the pooling of all members (default: each keeps its own).
        name: the ensemble's name in results (default: the names of its members).
    """
    weights = member_weights(len(models), weight)
    members = [as_embedder(load(model, pooling=pooling)) for model in models]
    return Ensemble(members, weights=weights, name=name or " + ".join(map(str, models)))


def average(
    models: Sequence[str | os.PathLike[str]], *, weight: float | None = None
) -> ConditionalAverage:
    """The mean of the scores of models that take conditions.

    Args:
        models: anything that :func:`load` takes.
        weight: weight of the last model; the others share the rest (default: equal weights).
    """
    weights = None
    if weight is not None:
        *others, last = member_weights(len(models), weight)
        weights = [share / len(others) for share in others] + [last]
    members = [as_conditional(load(model)) for model in models]
    return ConditionalAverage(members, weights=weights, name=" + ".join(map(str, models)))


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    pooling: Pooling | str | None = None,
    revision: str | None = None,
) -> Embedder:
    """Write a model as a sentence-transformers folder with ``tertium.json``, and return it.

    Args:
        source: anything that :func:`load` takes.
        output: a new or empty folder.
        pooling: the pooling to save instead of the model's own.
        revision: branch, tag or commit of a hub model.
    """
    folder = Path(output)
    check_new_folder(folder)
    model = as_embedder(load(source, pooling=pooling, revision=revision))
    model.save(folder)
    return model


def write_towers(
    source: str | os.PathLike[str], output: str | os.PathLike[str], *, revision: str | None = None
) -> tuple[Path, Path]:
    """Write both towers of a twin as two plain encoders, ``first`` and ``second``.

    Args:
        source: a twin; anything that :func:`load` takes.
        output: a new or empty folder.
        revision: branch, tag or commit of a hub model.
    """
    folder = Path(output)
    check_new_folder(folder)
    twin = load(source, revision=revision)
    if twin.kind not in (Kind.TWIN, Kind.ENCODER):
        raise TertiumError(f"{source} is not a twin: it has no towers.")
    from tertium.models.surgery import tower_encoders

    first, second = tower_encoders(twin.encoder)
    first.save(folder / "first")
    second.save(folder / "second")
    return folder / "first", folder / "second"


def shortened(model: Model, length: int | None) -> Model:
    """``model``, set to keep the first ``length`` dimensions of each vector; None for all."""
    if length is None:
        return model
    if not isinstance(model, TextEncoder):
        raise TertiumError(
            f"truncate_dim is for a single encoder, which {model.name} is not: leave it out, or "
            "name an encoder such as default or turbo."
        )
    if not 1 <= length <= model.width:
        raise TertiumError(
            f"truncate_dim is {length}, but vectors of {model.name} have {model.width} dimensions: "
            f"choose 1 to {model.width}."
        )
    model.truncate_dim = length
    return model


def _load(
    folder: Path,
    *,
    name: str,
    above: tuple[Path, ...] = (),
    kinds: Sequence[Kind] = tuple(Kind),
    **options: Any,
) -> Model:
    """A complete model, an adapter on its base, or a mixture of its members.

    ``above`` are the models that led here, outermost first; ``kinds`` are the allowed kinds.
    """
    if folder in above or len(above) > _DEEPEST:
        raise TertiumError(
            f"{above[0] / FILE_NAME}: its bases and members lead back to the model itself, or too "
            "deep. Fetch the model again."
        )
    manifest = read_manifest(folder)
    if manifest is not None and manifest.kind not in kinds:
        raise TertiumError(
            f"{folder / FILE_NAME}: a member of the kind '{manifest.kind}' is not one of "
            f"{', '.join(kinds)}, as {above[-1]} needs."
        )
    if manifest is None:
        if is_static(folder):
            return _load_static(folder, name=name, **options)
        if is_cross_encoder(folder):
            return load_published(folder, name=name, **options)
        return load_encoder(folder, name=name, **options)
    model = _load_kind(folder, manifest, name=name, above=(*above, folder), **options)
    if not above and options["pooling"] in (None, manifest.pooling):
        model.decision = read_decision(folder, manifest)  # fitted on exactly these scores
        if model.decision is not None and model.vector_model is not model:
            model.vector_model.decision_around = model.decision
            model.vector_model.name_around = name
    return model


def _load_kind(
    folder: Path, manifest: Manifest, *, above: tuple[Path, ...], **options: Any
) -> Model:
    if manifest.kind is Kind.ENSEMBLE or "members" in manifest.details:
        return _load_mixture(folder, manifest, above=above, **options)
    if "base" in manifest.details:
        return _load_adapter(folder, manifest, above=above, **options)
    if manifest.kind is Kind.CAREFUL:
        return _load_careful(folder, manifest, above=above, **options)
    return KINDS[manifest.kind](folder, manifest=manifest, **options)


def _load_mixture(folder: Path, manifest: Manifest, *, name: str, **options: Any) -> Model:
    entries = read_members(folder, manifest)
    weights = [entry.weight for _, entry in entries]
    for place, _ in entries:
        if not place.is_dir():
            raise TertiumError(f"{place} is missing, but the model needs this member.")
    conditional = manifest.kind is Kind.CONDITIONAL
    kinds = (Kind.CONDITIONAL,) if conditional else (Kind.ENCODER, Kind.TWIN, Kind.STATIC)
    members = [_load(place, name=entry.name, kinds=kinds, **options) for place, entry in entries]
    if conditional:
        takers = [as_conditional(member) for member in members]
        return ConditionalAverage(takers, weights=weights, name=name)
    return Ensemble([as_embedder(member) for member in members], weights=weights, name=name)


def _load_careful(folder: Path, manifest: Manifest, *, name: str, **options: Any) -> CarefulScorer:
    details, found = manifest.details, {}
    for key, kind in ((FAST, Kind.PAIR), (JUDGE, Kind.CROSS)):
        place = resolve_inner(folder, details, key)
        kept = options | ({} if key == FAST else {"pooling": None})
        found[key] = _load(place, name=_inner_name(details, name, key), kinds=(kind,), **kept)
    caution: Any = details.get("caution")
    try:
        chosen = Caution(**caution)
    except TypeError:
        raise TertiumError(
            f"{folder / FILE_NAME}: caution is {caution!r}, and needs strength and threshold. Save "
            "the model again."
        ) from None
    fast, judge = cast(PairScorer, found[FAST]), cast(CrossScorer, found[JUDGE])
    return CarefulScorer(fast, judge, chosen, name=name)


def _inner_name(details: Mapping[str, Any], name: str, key: str) -> str:
    """The name of a model inside another: a reserved name, or its folder there."""
    named = str(details.get(key))
    return named if named in NAMES else f"{name}/{Path(named).name}"


def _load_adapter(
    folder: Path,
    manifest: Manifest,
    *,
    pooling: Pooling | None,
    max_length: int | None,
    **options: Any,
) -> Model:
    """An adapter on its base, which may be an adapter itself."""
    length = max_length or manifest.details.get("max_length")
    place = resolve_base(folder, manifest.details)
    base = _load(place, pooling=None, max_length=length, **options).vector_model
    if len(base.readers) != 1:
        base_name = manifest.details["base"]
        raise TertiumError(f"{folder / FILE_NAME}: '{base_name}' is not a single encoder.")
    encoder: Any = base.readers[0]
    layers = kept_layers(folder, manifest)
    if layers is not None and not encoder.needs_engine:
        from tertium.models.surgery import keep_layers

        encoder = keep_layers(encoder, layers)
    if manifest.kind is Kind.ENCODER:
        return cast(Model, adapted_encoder(encoder, folder, manifest, pooling=pooling)[0])
    adapted = _ADAPTED[manifest.kind]
    return adapted.load_adapter(folder, encoder, manifest=manifest, pooling=pooling)


def _pooling(name: Pooling | str) -> Pooling:
    try:
        return Pooling(name)
    except ValueError:
        raise unknown_name("pooling", str(name), [str(p) for p in Pooling]) from None
