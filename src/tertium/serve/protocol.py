"""Messages between the server and its workers."""

import asyncio
import os
import struct
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import orjson

from tertium.engines import LOADER
from tertium.serve.settings import Settings

__all__ = ["LOADER", "Message", "ProtocolError", "Spec", "pack", "read", "read_blocking"]

Message = tuple[dict[str, Any], bytes]  # a JSON head, and bytes for arrays
_SIZES = struct.Struct("!II")
_LARGEST = 1 << 30  # bytes of a head or a body; more means that the stream is corrupt


@dataclass(frozen=True)
class Spec:
    """What a worker is started with.

    Attributes:
        settings: the server's settings.
        loader: ``module:function`` that loads a model by name.
    """

    settings: Settings
    loader: str = LOADER

    @property
    def threads(self) -> int:
        """Threads per worker."""
        return self.settings.threads or max((os.cpu_count() or 1) // self.settings.workers, 1)


class ProtocolError(OSError):
    """The bytes are not a message: the connection is unusable."""


def pack(head: dict[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes."""
    text = orjson.dumps(head)
    return b"".join((_SIZES.pack(len(text), len(body)), text, body))


async def read(reader: asyncio.StreamReader) -> Message:
    """The next message; raises ``IncompleteReadError`` at the end, else ``ProtocolError``."""
    head, body = _sizes(await reader.readexactly(_SIZES.size))
    return _message(await reader.readexactly(head + body), head)


def read_blocking(stream: BufferedReader) -> Message | None:
    """The next message, or None at the end; raises ``ProtocolError`` for anything else."""
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head, body = _sizes(sizes)
    content = stream.read(head + body)
    return None if len(content) < head + body else _message(content, head)


def _sizes(content: bytes) -> tuple[int, int]:
    head, body = _SIZES.unpack(content)
    if max(head, body) > _LARGEST:
        raise ProtocolError(f"a message of {head + body:,} bytes")
    return head, body


def _message(content: bytes, head: int) -> Message:
    try:
        found = orjson.loads(content[:head])
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"a message whose head is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ProtocolError("a message whose head is not an object")
    return found, content[head:]
