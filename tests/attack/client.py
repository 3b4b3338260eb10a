"""Clients that send what they like, and look closely at what comes back."""

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.serve.process import ROOT, Site

PATIENCE = 120  # seconds, in which even a busy machine does what is waited for
SECRETS = (str(ROOT), "/tmp/", "site-packages", "Traceback", 'File "', ".py")
SMALL = b'{"input": "a cat"}'


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a refusal, which has the documented shape and names no file of the server."""
        text = self.body.decode()
        assert not any(secret in text for secret in SECRETS), text
        error = json.loads(text)["error"]
        assert error.keys() == {"message", "type", "code", "param"} and error["message"]
        return str(error["code"])


def ask(site: Site, path: str, body: bytes | None = None, **headers: str) -> Answer:
    """One request on a connection of its own: POST if there is a body, else GET."""
    connection = http.client.HTTPConnection(*site.address, timeout=PATIENCE)
    with contextlib.closing(connection):
        kind = {} if body is None else {"Content-Type": "application/json"}
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {**kind, **headers})
        return read(connection.getresponse())


def embed(site: Site, *texts: str) -> Answer:
    return ask(site, "/v1/embeddings", json.dumps({"input": texts}).encode())


def read(response: http.client.HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, response.read())


def connect(site: Site) -> socket.socket:
    return socket.create_connection(site.address, timeout=PATIENCE)


def everything(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection, or resets it."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            found += part
    return found


def exchange(site: Site, *parts: bytes) -> bytes:
    """Send all of it, and hear the server until it closes the connection."""
    with connect(site) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
        return everything(connection)


def statuses(answers: bytes) -> list[int]:
    """Of all responses on a connection; no body of ours holds such a line."""
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


def counted(site: Site, name: str, **headers: str) -> float:
    """A counter of ``/metrics``, 0 where it is not there yet."""
    lines = ask(site, "/metrics", **headers).body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
