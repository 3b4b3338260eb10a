"""What a connection may send before its request is known, and how a client learns of the limits."""

import logging
import socket
import time
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from tertium.serve.http import Room
from tests.serve.live import Live, live

pytestmark = pytest.mark.integration
START = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def site() -> Iterator[Live]:
    with live(max_header_bytes=4096, max_headers=20, header_timeout=1.0) as started:
        yield started


def connect(site: Live) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=20)


def everything(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    found = b""
    while part := connection.recv(65_536):
        found += part
    return found


def refusal(site: Live, *parts: bytes) -> bytes:
    with connect(site) as connection:
        for part in parts:
            connection.sendall(part)
        return everything(connection)


@pytest.mark.parametrize(
    "parts",
    [
        [START + b"X-Large: " + b"a" * 300_000],  # of which the server has not seen the end
        [START, b"X-Large: " + b"a" * 3000, b"a" * 300_000],
        [START + b"X-Large: " + b"a" * 5000 + b"\r\n\r\n"],
        [START + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 500) for n in range(10))],
        [b"GET /" + b"a" * 300_000],
        [START + JSON + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ", b"a" * 600_000],
        [START + JSON + b"Transfer-Encoding: chunked\r\n\r\n2;", b"extension" * 60_000],
    ],
    ids=["one", "in-parts", "at-once", "several", "address", "trailer", "extension"],
)
def test_headers_that_are_too_large_are_refused_readably(site: Live, parts: list[bytes]) -> None:
    answer = refusal(site, *parts)
    assert answer.startswith(b"HTTP/1.1 431 ") and b'"headers_too_large"' in answer
    assert b"connection: close" in answer


def test_too_many_headers_are_refused(site: Live) -> None:
    answer = refusal(site, START + b"".join(b"X-%d: a\r\n" % n for n in range(30)) + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ") and b'"too_many_headers"' in answer


def test_headers_that_do_not_come_to_an_end_are_refused_after_their_time(site: Live) -> None:
    with connect(site) as connection:
        start = time.monotonic()
        connection.sendall(START)
        answer = everything(connection)
        assert answer.startswith(b"HTTP/1.1 408 ") and b'"slow_headers"' in answer
        assert time.monotonic() - start > 0.9


def test_connections_on_which_nothing_comes_are_closed(site: Live) -> None:
    with connect(site) as silent, connect(site) as blank:
        blank.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += blank.recv(1000)
        blank.sendall(b"\r\n\r\n")  # no request begins with this
        assert everything(silent) == b"" and everything(blank) == b""


def test_a_second_request_that_is_too_large_does_not_cost_the_first_its_answer(site: Live) -> None:
    body = b'{"input": "sleep 0.3"}'
    first = START + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answer = refusal(site, first, START + b"X-Large: " + b"a" * 300_000)
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"embedding"' in answer


def test_a_body_that_comes_in_tiny_chunks_is_no_header(site: Live) -> None:
    body = b'{"input": "' + b"a" * 3000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with connect(site) as connection:
        connection.sendall(START + JSON + b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(chunks), 1000):
            connection.sendall(chunks[start : start + 1000])
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("declared", [True, False])
def test_a_client_that_sends_too_much_can_read_why(
    site: Live, close: bytes, declared: bool
) -> None:
    size = 30_000_000
    with connect(site) as connection:
        length = b"Content-Length: %d\r\n" % size if declared else b"Transfer-Encoding: chunked\r\n"
        connection.sendall(START + JSON + close + length + b"\r\n")
        if not declared:
            connection.sendall(b"%x\r\n" % size)
        connection.sendall(b"a" * size)  # all of it, before it listens
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 413 ") and b'"body_too_large"' in answer


def test_connections_beyond_the_limit_are_refused_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("tertium.serve").propagate = True
    with live(max_connections=3) as site:
        held = [connect(site) for _ in range(3)]
        end = time.monotonic() + 20
        while (
            site.service.metrics.registry.get_sample_value(
                "tertium_refused_total", {"code": "too_many_connections"}
            )
            is None
        ):
            assert time.monotonic() < end
            with connect(site) as refused:
                answer = everything(refused)
        assert answer.startswith(b"HTTP/1.1 503 ")
        for connection in held:
            connection.close()
        with httpx.Client(base_url=site.url, transport=httpx.HTTPTransport(retries=5)) as client:
            while client.get("/healthz").status_code != 200:
                assert time.monotonic() < end
    assert "out of connections: 3 are open" in caplog.text


def test_the_log_is_not_flooded(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("tertium.serve").propagate = True
    now = 0.0
    room = Room(2, clock=lambda: now)
    assert room.takes(2) and not caplog.records
    assert not any(room.takes(3) for _ in range(100)) and len(caplog.records) == 1
    now = 60.0
    assert not room.takes(3)
    assert "100 more were refused" in caplog.records[1].getMessage()
