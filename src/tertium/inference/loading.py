"""One way in: a reserved name, a folder or a hub id gives the right object for its kind."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tertium.encoders import ENCODERS, Encoder
from tertium.encoders.embedded import default_folder
from tertium.encoders.static import is_static
from tertium.encoders.weights import weights_file
from tertium.errors import ModelNotFoundError, TertiumError, unknown_name
from tertium.inference.average import ConditionalAverage
from tertium.inference.conditional import ConditionalScorer
from tertium.inference.engines.attach import check_device, with_engine
from tertium.inference.ensemble import Ensemble
from tertium.inference.grading import TripleGrader
from tertium.inference.pair import PairScorer
from tertium.manifest import FILE_NAME, MemberEntry, read_manifest, read_members
from tertium.types import EngineName, Kind, Pooling

__all__ = [
    "NAMES",
    "NamedModel",
    "is_shared_name",
    "load",
    "load_conditional",
    "load_embedder",
    "resolve",
    "resolve_base",
]

_SHIPPED = Path(__file__).parents[1] / "models"  # adapters that come with the package
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_DEEPEST = 8  # adapters on adapters and averages of averages


@dataclass(frozen=True)
class NamedModel:
    """A model that comes with tertium."""

    folder: Callable[[], Path]
    kind: Kind
    summary: str


# What ``load`` returns, by the kind that ``tertium.json`` names.
KINDS: dict[str, type[Encoder] | type[PairScorer] | type[Ensemble] | type[ConditionalScorer]] = {
    **ENCODERS,
    Kind.PAIR: PairScorer,
    Kind.CONDITIONAL: ConditionalScorer,
    Kind.ENSEMBLE: Ensemble,
}

# Reserved names; a folder of the same name is reached with a separator, as in ``./default``.
NAMES: dict[str, NamedModel] = {
    "default": NamedModel(
        default_folder, Kind.ENCODER, "all-MiniLM-L6-v2, 22.7 M parameters, embedded in the install"
    ),
    "sts": NamedModel(
        lambda: _SHIPPED / "sts", Kind.PAIR, "graded similarity from 0 to 5, trained on STS-B"
    ),
    "conditional": NamedModel(
        lambda: _SHIPPED / "conditional",
        Kind.CONDITIONAL,
        "similarity in a given respect from 1 to 5, trained on C-STS",
    ),
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
            (``tertium.encoders.published``) have that of their papers.
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


def resolve(name: str | os.PathLike[str], *, revision: str | None = None) -> Path:
    """The folder that ``name`` stands for, fetched from the hub if it is a hub id."""
    text = os.fspath(name)
    if text in NAMES:
        return NAMES[text].folder()
    path = Path(text).expanduser()
    if path.is_dir():
        if not any((path / file).exists() for file in ("modules.json", "config.json", FILE_NAME)):
            raise ModelNotFoundError(
                f"{path} holds no model: neither {FILE_NAME} nor modules.json nor config.json."
            )
        return path
    if path.exists():
        raise ModelNotFoundError(f"{path} is a file; a model is a folder.")
    if not _HUB_ID.fullmatch(text):
        raise ModelNotFoundError(f"There is no folder {path}.")
    return _from_hub(text, revision)


def is_shared_name(name: str) -> bool:
    """Whether ``name`` means the same model on every machine: a reserved name or a hub id."""
    return name in NAMES or (_HUB_ID.fullmatch(name) is not None and not Path(name).exists())


def resolve_base(folder: Path, details: Mapping[str, Any]) -> Path:
    """The folder of the model that the adapter in ``folder`` changes.

    It is not looked for among the folders here: a model from elsewhere must not choose among them.
    """
    base = details["base"]
    if not isinstance(base, str) or not (base in NAMES or _HUB_ID.fullmatch(base)):
        raise TertiumError(
            f"{folder / FILE_NAME}: the base {base!r} is neither a reserved name "
            f"({', '.join(NAMES)}) nor a hub id. Fetch the model again."
        )
    return NAMES[base].folder() if base in NAMES else _from_hub(base, None)


def _from_hub(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=["*.json", "*.txt", "*.model", "*.spm", "*.safetensors"],
            ignore_patterns=["onnx/*", "openvino/*"],
        )
    except Exception as error:  # the hub client has many kinds of error, all of them mean this
        raise ModelNotFoundError(
            f"Model '{repository}' is not a reserved name ({', '.join(NAMES)}), not a folder here, "
            "not in the local cache, and could not be fetched from the hub "
            f"({type(error).__name__})."
        ) from error
    path = Path(folder)
    if not any(path.rglob("*.safetensors")) and weights_file(path) is None:
        raise TertiumError(
            f"No safetensors weights of '{repository}' are on the hub or in its cache, and pickled "
            "ones are not fetched. Name a revision that has them, such as refs/pr/1, or download "
            "the repository yourself and run: tertium convert FOLDER -o DIR"
        )
    return path


def _pooling(name: Pooling | str) -> Pooling:
    try:
        return Pooling(name)
    except ValueError:
        raise unknown_name("pooling", str(name), [str(p) for p in Pooling]) from None
