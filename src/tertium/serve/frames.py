"""Messages between the server and a worker: a JSON head, and bytes behind it for arrays."""

import asyncio
import struct
from io import BufferedReader
from typing import Any

import orjson

__all__ = ["Message", "pack", "read", "read_blocking"]

Message = tuple[dict[str, Any], bytes]

_SIZES = struct.Struct("!II")


def pack(head: dict[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes."""
    text = orjson.dumps(head)
    return b"".join((_SIZES.pack(len(text), len(body)), text, body))


async def read(reader: asyncio.StreamReader) -> Message:
    """The next message; raises ``IncompleteReadError`` at the end."""
    head, body = _SIZES.unpack(await reader.readexactly(_SIZES.size))
    content = await reader.readexactly(head + body)
    return orjson.loads(content[:head]), content[head:]


def read_blocking(stream: BufferedReader) -> Message | None:
    """The next message, or None at the end."""
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head, body = _SIZES.unpack(sizes)
    content = stream.read(head + body)
    if len(content) < head + body:
        return None
    return orjson.loads(content[:head]), content[head:]
