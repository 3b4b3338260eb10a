"""Models by name: reserved names, folders and hub ids, without loading anything heavy."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.models.embedded import default_folder
from tertium.models.fetching import remote_folder
from tertium.records.decision import Decision
from tertium.records.manifest import FILE_NAME, read_decision, read_manifest
from tertium.types import Kind

__all__ = [
    "INNER",
    "NAMES",
    "NamedModel",
    "decision_of",
    "folders_below",
    "is_shared_name",
    "is_static",
    "resolve",
    "resolve_base",
    "resolve_inner",
    "takes_conditions",
]

_SHIPPED = Path(__file__).parents[1] / "shipped"  # adapters that come with the package
INNER = ("fast", "judge")  # the models inside a careful scorer
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True)
class NamedModel:
    """A model that comes with tertium."""

    folder: Callable[[], Path]
    kind: Kind
    summary: str


def _shipped(name: str, kind: Kind, summary: str) -> NamedModel:
    return NamedModel(lambda: _SHIPPED / name, kind, summary)


# Reserved names; a folder of the same name is reached with a separator, as in ``./default``.
NAMES: dict[str, NamedModel] = {
    "default": NamedModel(
        default_folder,
        Kind.ENCODER,
        "all-MiniLM-L6-v2, 22.7 M parameters, included in the install",
    ),
    "base": NamedModel(
        lambda: remote_folder("base"),
        Kind.ENCODER,
        "all-mpnet-base-v2, 109 M parameters, fetched once: tertium models fetch base",
    ),
    "sts": _shipped(
        "sts",
        Kind.CAREFUL,
        "graded similarity from 0 to 5 that detects contradictions: sts-fast with judge",
    ),
    "sts-fast": _shipped(
        "sts-fast",
        Kind.PAIR,
        "graded similarity from 0 to 5 from vectors alone, trained on STS-B",
    ),
    "judge": _shipped("judge", Kind.CROSS, "whether two texts contradict each other, from 0 to 1"),
    "sts-base": _shipped(
        "sts-base",
        Kind.CAREFUL,
        "sts on base, five times as large: sts-base-fast with judge; tertium models fetch base",
    ),
    "sts-base-fast": _shipped(
        "sts-base-fast", Kind.PAIR, "sts-fast on base: tertium models fetch base"
    ),
    "conditional": _shipped(
        "conditional",
        Kind.CONDITIONAL,
        "similarity with respect to a condition, from 1 to 5, trained on C-STS",
    ),
    "conditional-base": _shipped(
        "conditional-base",
        Kind.CONDITIONAL,
        "the same on base, five times as large: tertium models fetch base",
    ),
    "turbo": _shipped("turbo", Kind.ENCODER, "vectors like those of sts from half its layers"),
}


def resolve(name: str | os.PathLike[str], *, revision: str | None = None) -> Path:
    """The folder that ``name`` stands for, fetched from the hub if it is a hub id."""
    text = os.fspath(name)
    if text in NAMES:
        return NAMES[text].folder()
    path = Path(text).expanduser()
    if path.is_dir():
        if not any((path / file).exists() for file in ("modules.json", "config.json", FILE_NAME)):
            raise ModelNotFoundError(
                f"{path} does not contain a model: there is no {FILE_NAME}, modules.json or "
                "config.json."
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
    """The folder of the model that the adapter in ``folder`` applies to.

    Local folders are not searched: a model from elsewhere must not choose one of them.
    """
    base = details["base"]
    if not isinstance(base, str) or not (base in NAMES or _HUB_ID.fullmatch(base)):
        raise TertiumError(
            f"{folder / FILE_NAME}: the base {base!r} is neither a reserved name "
            f"({', '.join(NAMES)}) nor a hub id. Fetch the model again."
        )
    return NAMES[base].folder() if base in NAMES else _from_hub(base, None)


def resolve_inner(folder: Path, details: Mapping[str, Any], key: str) -> Path:
    """The folder of a model inside the one in ``folder``: a subfolder, or a reserved name."""
    named = details.get(key)
    if isinstance(named, str) and named in NAMES:
        return NAMES[named].folder()
    inside = isinstance(named, str) and folder.resolve() in (folder / named).resolve().parents
    if not isinstance(named, str) or not inside:
        raise TertiumError(
            f"{folder / FILE_NAME}: {key} is {named!r}, neither a reserved name "
            f"({', '.join(NAMES)}) nor a folder inside. Save the model again."
        )
    if not (folder / named).is_dir():
        raise TertiumError(f"{folder / named} is missing, but the model needs it.")
    return folder / named


def folders_below(folder: Path, details: Mapping[str, Any]) -> list[Path]:
    """Other models that the one in ``folder`` depends on, except those inside the folder."""
    found = [resolve_base(folder, details)] if "base" in details else []
    inner = [details.get(key) for key in INNER]
    return found + [NAMES[name].folder() for name in inner if name in NAMES]


def is_static(folder: Path) -> bool:
    """Whether a sentence-transformers folder begins with static embeddings."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return str(modules[0]["type"]).endswith(".StaticEmbedding")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def takes_conditions(name: str | os.PathLike[str], *, revision: str | None = None) -> bool:
    """Whether a model scores triples rather than pairs, without loading it."""
    if name in NAMES:
        return NAMES[str(name)].kind is Kind.CONDITIONAL
    manifest = read_manifest(resolve(name, revision=revision))
    return manifest is not None and manifest.kind is Kind.CONDITIONAL


def decision_of(name: str | os.PathLike[str]) -> Decision | None:
    """The decision that was fitted for a model, without loading it."""
    folder = resolve(name)
    manifest = read_manifest(folder)
    return None if manifest is None else read_decision(folder, manifest)


def _from_hub(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    from tertium.models.checkpoints import weights_file

    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=["*.json", "*.txt", "*.model", "*.spm", "*.safetensors"],
            ignore_patterns=["onnx/*", "openvino/*"],
        )
    except Exception as error:  # the hub client has many kinds of error, which all mean this
        raise ModelNotFoundError(
            f"Model '{repository}' is not a reserved name ({', '.join(NAMES)}), not a folder here, "
            "not in the local cache, and could not be fetched from the hub "
            f"({type(error).__name__})."
        ) from error
    path = Path(folder)
    if not any(path.rglob("*.safetensors")) and weights_file(path) is None:
        raise TertiumError(
            f"'{repository}' has no safetensors weights on the hub or in the cache, and pickled "
            "ones are not fetched. Name a revision that has them, such as refs/pr/1, or download "
            "the repository yourself and run: tertium convert FOLDER -o DIR"
        )
    return path
