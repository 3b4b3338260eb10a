"""API keys from a file: compared in constant time, read again when the file changes."""

import hashlib
import hmac
import logging
import re
import time
from pathlib import Path

from tertium.errors import TertiumError

__all__ = ["KeyFile"]

_LOG = logging.getLogger("tertium.serve")
_LOOK_EVERY = 1.0  # seconds between two looks at the file
_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_SHORTEST = 16


class KeyFile:
    """One key a line, as it is or as ``sha256:`` and its hash; ``#`` begins a comment.

    A file that can no longer be read, or that has a line that is no key, leaves the keys as they
    were; one without keys lets nobody in.

    Args:
        path: of the file.
        look_every: seconds between two looks at it.
    """

    def __init__(self, path: Path, *, look_every: float = _LOOK_EVERY) -> None:
        self._path = path
        self._look_every = look_every
        self._seen = _signature(path)
        self._hashes = _read(path)
        self._looked = time.monotonic()
        if not self._hashes:
            raise TertiumError(f"{path} holds no key: write one a line.")

    def accepts(self, key: str) -> bool:
        """Whether the file holds the key; every line is compared, whichever fits."""
        self._look()
        presented = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        found = False
        for known in self._hashes:
            found |= hmac.compare_digest(known, presented)
        return found

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < self._look_every:
            return
        self._looked = now
        try:
            signature = _signature(self._path)
            if signature == self._seen:
                return
            self._hashes = _read(self._path)
        except TertiumError as error:
            _LOG.error("keys stay as they were: %s", error)
            return
        self._seen = signature
        _LOG.info("%d keys read from %s", len(self._hashes), self._path)


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise TertiumError(f"The file of keys {path} cannot be read: {error.strerror}.") from None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TertiumError(f"The file of keys {path} cannot be read: {error}.") from None
    hashes = []
    for number, line in enumerate(lines, 1):
        key = line.partition("#")[0].strip()
        if not key:
            continue
        hashed = _HASHED.fullmatch(key)
        if hashed is None and (len(key) < _SHORTEST or len(key.split()) > 1):
            raise TertiumError(
                f"{path}, line {number} is no key: it needs {_SHORTEST} characters or more, "
                "without blanks."
            )
        digest = hashlib.sha256(key.encode()).digest()
        hashes.append(bytes.fromhex(hashed[1]) if hashed else digest)
    return tuple(hashes)
