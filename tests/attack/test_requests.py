"""Requests made to confuse, exhaust or deceive one server, which must not even lose a worker."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tertium.corpus import Index
from tests.attack.client import (
    SMALL,
    ask,
    connect,
    counted,
    embed,
    everything,
    exchange,
    read,
    statuses,
    until,
)
from tests.serve.fakes import FakeModel
from tests.serve.process import Site, started

MARKER = "xyzzy-private"  # in texts, paths and headers; never in the log
CONNECTIONS = 300
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(SMALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("search") / "index"
    Index.build(folder, ["a cat", "a dog"], FakeModel("hash"))
    flags = {"model": "hash", "conditional_model": "respects", "index": folder}
    with started(
        **flags, access_log=True, max_connections=CONNECTIONS, header_timeout=3.0, deadline=60
    ) as found:
        yield found
        log = found.log.read_text(errors="surrogateescape")
        assert "Traceback" not in log and MARKER not in log
        assert all(character.isprintable() for line in log.splitlines() for character in line)


@pytest.fixture(autouse=True)
def _unharmed(site: Site) -> Iterator[None]:
    """Whatever was sent: the same processes go on answering, and nothing stays in the queue."""
    before = site.family()
    yield
    until(lambda: counted(site, "tertium_queue_requests ") == 0)
    assert embed(site, "a cat").status == 200
    assert site.family() == before


PATHS = ("embeddings", "similarity", "conditional", "explain", "search")
BODIES = [
    *(b"", b" ", b"\x00", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{", b"}", b"[]", b"null", b"true"),
    *(
        b"7",
        b'"a"',
        b"NaN",
        b"Infinity",
        b"-",
        b"{} {}",
        b"{}x",
        b"{'input': 'a'}",
        b"\x1f\x8b\x08",
    ),
    *(b'{"input"}', b'{"input":}', b'{"input": "a",}', b'{"input": "\x00"}', b'{"input": "\n"}'),
    *(b'{"input": "\\ud800"}', b'{"input": "\\udc00\\ud800"}', b'{"input": "\\x41"}'),
    *(b'{"input": "\xc3\x28"}', b'{"input": "\xed\xa0\x80"}', b'{"input": "\xf8\xa1\xa1\xa1\xa1"}'),
    *(
        b'{"input": 1e999}',
        b'{"input": -1}',
        b'{"input": NaN}',
        b'{"input": 1' + b"0" * 5000 + b"}",
    ),
    *(b'{"input": %s"a"%s}' % (b"[" * depth, b"]" * depth) for depth in (2, 100, 5000, 200_000)),
    *(b"[" * 500_000, b'{"a":' * 200_000, b'{"input": [' + b'"",' * 200_000 + b'""]}'),
    *(b'{"input": [' + b"[]," * 300 + b"[]]}", b'{"input": {}}', b'{"input": [null]}'),
    *(b'{"input": [true]}', b'{"input": [["a"]]}', b'{"input": "a", "input": [1]}'),
    *(b'{"input": "a", "model": {}}', b'{"input": "a", "model": "../../etc/passwd"}'),
    *(b'{"input": "a", "dimensions": %d}' % n for n in (-1, 0, 2**31, 2**63, 2**64, 10**30)),
    *(b'{"input": "a", "dimensions": 1.5}', b'{"input": "a", "dimensions": "1"}'),
    *(b'{"input": "a", "dimensions": true}', b'{"input": "a", "encoding_format": "pickle"}'),
    *(b'{"query": "a", "top_k": %d}' % n for n in (-1, 0, 101, 2**31, 2**63, 10**30)),
    *(b'{"query": "a", "top_k": 1e308}', b'{"query": "a", "threshold": "x"}', b'{"query": []}'),
    *(b'{"query": "a", "threshold": 1e999}', b'{"query": "a", "threshold": NaN}'),
    *(b'{"query": "a", "index": "/etc"}', b'{"query": "a", "__class__": "x"}'),
    *(b'{"pairs": %s}' % pairs for pairs in (b"{}", b"[]", b"[[]]", b'["ab"]', b'[["a"]]')),
    *(b'{"pairs": [["a", "b", "c"]]}', b'{"pairs": [["a", 1]]}', b'{"pairs": [{"0": "a"}]}'),
    *(b'{"triples": [["a", "b"]]}', b'{"triples": [["a", "b", null]]}', b'{"triples": ["abc"]}'),
    *(b'{"a": "", "b": ""}', b'{"a": "a"}', b'{"a": ["a"], "b": "b"}', b'{"a": "a", "b": null}'),
    *(b'{"a": "a", "b": "b", "on": 1}', b'{"a": "%s", "b": "b"}' % (b"a " * 2000)),
    b'{"a": "%s", "b": "b"}' % (b"a" * 1_000_000),
    '{"a": "\u202e\u0000\uffff\U0010ffff", "b": "\\u0000"}'.encode(),
]


@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_ask_for_nothing_sensible_are_refused_in_one_shape(
    site: Site, path: str
) -> None:
    for body in BODIES:
        answer = ask(site, f"/v1/{path}", body)
        if answer.status != 200:
            assert answer.code and answer.status in (400, 404, 413, 501), (body[:80], answer)


@pytest.mark.parametrize(
    "kind", ["text/html", "application/json; charset=utf-16", "", "\xff", "*/*"]
)
def test_other_kinds_of_bodies_break_nothing(site: Site, kind: str) -> None:
    for encoding in ("gzip", "identity", "br, gzip"):
        answer = ask(
            site, "/v1/embeddings", SMALL, **{"Content-Type": kind, "Content-Encoding": encoding}
        )
        assert answer.status == 200 or answer.code in ("not_json", "invalid_json")


TRAVERSALS = [
    *("/../../../../etc/passwd", "/..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd"),
    *("/page.js/../../../settings.py", "/%252e%252e/etc/passwd", "/..\\..\\etc\\passwd"),
    *("//etc/passwd", "///", "/static/../../run.py", "/.git/config", "/v1/../../etc/passwd"),
    *("/%00", "/page.js%00.html", "/\xff", "/%ff%fe", "/v1/models/../../../etc/passwd"),
    *("/docs/..;/etc/passwd", "/file:///etc/passwd", "/v1/%2e%2e%2fetc%2fpasswd", "/~root"),
    "/" + "../" * 2000 + "etc/passwd",
    "/" + MARKER,
]


@pytest.mark.parametrize("path", TRAVERSALS, ids=lambda path: path[:24])
def test_no_path_leads_to_a_file(site: Site, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    found = exchange(site, request.encode("latin-1"))
    assert statuses(found)[0] in (400, 404) and b"root:" not in found and b"import" not in found


SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
HIDDEN = {
    "length and chunks": HEAD + JSON + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n" + SMUGGLED,
    "chunks and length": HEAD + JSON + b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n"
    b"0\r\n\r\n%s" % (5 + len(SMUGGLED), SMUGGLED),
    "two lengths": HEAD + JSON + b"Content-Length: 0\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "a list of lengths": HEAD + JSON + b"Content-Length: 0, 5\r\n\r\n" + SMUGGLED,
    "a signed length": HEAD + JSON + b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "a negative length": HEAD + JSON + b"Content-Length: -1\r\n\r\n" + SMUGGLED,
    "a length in hex": HEAD + JSON + b"Content-Length: 0x0\r\n\r\n" + SMUGGLED,
    "a length without end": HEAD + JSON + b"Content-Length: %s\r\n\r\n" % (b"9" * 400) + SMUGGLED,
    "another coding": HEAD + JSON + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a coding before the last": HEAD + JSON + b"Transfer-Encoding: chunked, identity\r\n\r\n"
    b"0\r\n\r\n" + SMUGGLED,
    "a blank before the colon": HEAD
    + JSON
    + b"Transfer-Encoding : chunked\r\n"
    + LENGTH
    + b"\r\n0\r\n\r\n"
    + SMUGGLED,
    "a folded header": HEAD
    + JSON
    + b"X: a\r\n Transfer-Encoding: chunked\r\n"
    + LENGTH
    + b"\r\n0\r\n\r\n"
    + SMUGGLED,
    "a bare carriage return": HEAD
    + JSON
    + b"X: a\rTransfer-Encoding: chunked\r\n"
    + LENGTH
    + b"\r\n0\r\n\r\n"
    + SMUGGLED,
    "a chunk in words": HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + SMUGGLED,
    "a chunk beyond numbers": HEAD
    + JSON
    + b"Transfer-Encoding: chunked\r\n\r\n%s\r\n%s" % (b"f" * 20, SMUGGLED),
    "a NUL in a name": HEAD + JSON + b"Content\x00-Length: 0\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("way", HIDDEN)
def test_no_request_hides_in_another(site: Site, way: str) -> None:
    """A proxy in front may read the same bytes another way, so that doubts end the connection."""
    name = 'tertium_requests_total{route="/v1/models"'
    before = counted(site, name)
    found = statuses(exchange(site, HIDDEN[way]))
    assert counted(site, name) == before
    assert found == [400]


def test_requests_in_a_row_are_answered_in_their_order(site: Site) -> None:
    body = json.dumps({"input": "sleep 0.2"}).encode()
    slow = HEAD + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    found = exchange(site, slow + SMUGGLED + last)
    assert statuses(found) == [200, 200, 404]


END = b"Connection: close\r\n\r\n"
HEADS = {
    "no request": (400, b"\x00" * 500),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    "another version": (400, b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
    "another protocol": (400, b"EHLO localhost\r\n"),
    "a coloured method": (400, b"\x1b[31mGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "a coloured path": (400, b"GET /\x1b]0;xyzzy-private\x07 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "a coloured host": (400, b"GET / HTTP/1.1\r\nHost: \x1b[31mlocalhost\r\n\r\n"),
    "a line in the path": (404, b"GET /%0d%0axyzzy-private HTTP/1.1\r\nHost: localhost\r\n" + END),
    "no host": (421, b"GET / HTTP/1.1\r\n" + END),
    "another host": (421, b"GET / HTTP/1.1\r\nHost: evil.example\r\n" + END),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + END),
    "a host in the path": (
        421,
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n" + END,
    ),
    "a proxy": (400, b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    "an upgrade": (
        404,
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ),
    "a method": (405, b"TRACE / HTTP/1.1\r\nHost: localhost\r\n" + END),
    "many headers": (431, b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 5000 + b"\r\n"),
    "a long path": (431, b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
}


@pytest.mark.parametrize("way", HEADS)
def test_heads_that_are_none_get_no_page(site: Site, way: str) -> None:
    wanted, head = HEADS[way]
    assert statuses(exchange(site, head)) == [wanted]


def test_headers_of_300_megabytes_cost_no_memory(site: Site) -> None:
    before = site.resident()
    part = b"a" * 2**20
    peak = 0
    with connect(site) as connection:
        connection.sendall(HEAD + b"X-Large: ")
        with contextlib.suppress(OSError):  # it need not listen to the end
            for _ in range(300):
                connection.sendall(part)
                peak = max(peak, site.resident())
        found = everything(connection)
    assert statuses(found) in ([431], [])
    assert peak - before < 32 * 1024


@pytest.mark.parametrize("declared", [True, False])
def test_bodies_of_300_megabytes_cost_no_memory(site: Site, declared: bool) -> None:
    before = site.resident()
    length = (
        b"Content-Length: %d\r\n" % 300_000_000 if declared else b"Transfer-Encoding: chunked\r\n"
    )
    peak = 0
    with connect(site) as connection:
        connection.sendall(HEAD + JSON + length + b"\r\n")
        with contextlib.suppress(OSError):
            for _ in range(300):
                connection.sendall(
                    b"a" * 10**6 if declared else b"f4240\r\n" + b"a" * 10**6 + b"\r\n"
                )
                peak = max(peak, site.resident())
        found = everything(connection)
    assert statuses(found) in ([413], [])
    assert peak - before < 32 * 1024


def test_slow_clients_hold_nobody_up_and_are_shown_out(site: Site) -> None:
    silent = [connect(site) for _ in range(60)]
    heads = [connect(site) for _ in range(60)]
    stop = threading.Event()

    def drip() -> None:
        """A byte of a header now and then, on every connection."""
        for connection in heads:
            connection.sendall(HEAD + b"X-Slow: ")
        while not stop.wait(0.2):
            for connection in heads:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")

    with ThreadPoolExecutor(1) as pool:
        dripping = pool.submit(drip)
        try:
            for _ in range(20):
                assert embed(site, "a cat").status == 200
            assert all(statuses(everything(each)) == [] for each in silent)
            assert all(statuses(everything(each)) in ([408], []) for each in heads)
        finally:
            stop.set()
        dripping.result()
    for connection in (*silent, *heads):
        connection.close()


def test_clients_that_do_not_read_their_answers_cost_little_memory(site: Site) -> None:
    """Each asks for megabytes, again and again, and takes none of them."""
    texts = [f"{n} {'a' * 100}" for n in range(512)]
    body = json.dumps({"input": texts}).encode()
    request = HEAD + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    before = site.resident()
    deaf = [connect(site) for _ in range(16)]
    for connection in deaf:
        connection.setblocking(False)
    for _ in range(50):
        for connection in deaf:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                connection.send(request)
        assert embed(site, "a cat").status == 200
    assert site.resident() - before < 128 * 1024
    for connection in deaf:
        connection.close()


def test_more_connections_than_there_is_room_for(site: Site) -> None:
    refused = 0
    with contextlib.ExitStack() as held:
        for _ in range(CONNECTIONS + 50):
            held.enter_context(connect(site))
        with connect(site) as late:
            found = everything(late)
            refused += statuses(found) == [503] and b"too_many_connections" in found
    assert refused
    until(
        lambda: (
            statuses(exchange(site, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")) == [200]
        )
    )


def test_clients_that_leave_are_forgotten(site: Site) -> None:
    for number in range(100):
        body = json.dumps({"input": f"{MARKER} {number}"}).encode()
        with connect(site) as connection:
            connection.sendall(HEAD + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            if number % 2:  # a reset instead of an end
                linger = (1).to_bytes(4, "little") + bytes(4)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def test_a_connection_goes_on_after_a_refusal(site: Site) -> None:
    with contextlib.closing(http.client.HTTPConnection(*site.address, timeout=60)) as connection:
        for body, wanted in ((b"{", 400), (SMALL, 200), (b'{"input": []}', 400), (SMALL, 200)):
            connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
            assert read(connection.getresponse()).status == wanted
