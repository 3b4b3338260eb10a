"""A server on a port: official and own clients, fuzzed requests, clients that misbehave."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest

from tertium.client import Client, ServerError
from tertium.corpus import Index
from tertium.errors import TertiumError
from tests.conftest import ROOT
from tests.serve.fakes import FakeModel
from tests.serve.live import Live, live

pytestmark = pytest.mark.integration
TEXTS = ["a cat sleeps", "a dog barks", "50 % of “ünïcode” 🐈"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("search") / "index"
    Index.build(folder, ["a cat", "a dog", "a bird"], FakeModel("hash"))
    with live(conditional_model="respects", index=folder) as started:
        yield started


def vectors(texts: list[str]) -> np.ndarray:
    rows = FakeModel("hash").encode(texts)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def raw(site: Live, content: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", site.port), timeout=20)
    connection.sendall(content)
    return connection


def request(body: bytes, *, length: int | None = None) -> bytes:
    head = (
        "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def test_the_official_client_gets_the_models_vectors(site: Live) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["hash", "respects", "hash"]
        packed = client.embeddings.create(model="hash", input=TEXTS)  # it asks for base64
        plain = client.embeddings.create(model="hash", input=TEXTS, encoding_format="float")
        short = client.embeddings.create(model="hash", input=TEXTS[0], dimensions=3)
        for found in (packed, plain):
            rows = np.array([each.embedding for each in found.data])
            assert np.allclose(rows, vectors(TEXTS), atol=1e-6)
            assert found.usage.prompt_tokens == found.usage.total_tokens > 0
        assert len(short.data[0].embedding) == 3
        with pytest.raises(openai.BadRequestError, match="not token ids of this model"):
            client.embeddings.create(model="hash", input=[1, 2, 3])
        with pytest.raises(openai.NotFoundError, match="'hash'"):
            client.embeddings.create(model="other", input="a")


def test_our_client_asks_in_parts(site: Live) -> None:
    texts = [f"text {n}" for n in range(10)]
    with Client(site.url, batch=4) as client:
        assert np.allclose(client.embed(texts), vectors(texts), atol=1e-6)
        assert client.embed(texts, dimensions=2).shape == (10, 2)
        scores = client.similarity([("a", text) for text in texts])
        assert scores.values.shape == (10,) and scores.scale == (-1.0, 1.0)
        assert client.conditional([("a", "b", "c")]).model == "respects"
        assert client.search(["a dog"], top_k=1)[0][0].text == "a dog"
        assert client.explain("a cat", "a dog")["score"] == 0.5
        assert client.models()[0]["id"] == "hash"
        assert client.conditional([("a", "b", "c")], model="respects").model == "respects"
        for ask in (
            lambda: client.embed(["a"], model="gpt"),
            lambda: client.similarity([("a", "b")], model="gpt"),
            lambda: client.explain("a", "b", model="gpt"),
        ):
            with pytest.raises(ServerError, match="served by 'hash', not by 'gpt'"):
                ask()
        with pytest.raises(ServerError, match="top_k may be") as told:
            client.search(["a"], top_k=1000)
        assert (told.value.status, told.value.code) == (400, "too_many_hits")
    with pytest.raises(TertiumError, match="not an HTTP address"):
        Client("127.0.0.1:8080")


def test_our_client_gets_decisions(tmp_path: Path) -> None:
    Index.build(tmp_path / "index", ["a cat", "a dog"], FakeModel("deciding"))
    pairs = [("a cat", "a cat"), ("a cat", "a dog"), ("a dog", "a dog")]
    with live(model="deciding", index=tmp_path / "index") as site, Client(site.url, batch=2) as ask:
        scores = ask.similarity(pairs)
        (near, far), (word,) = (
            ask.search(["a cat"])[0],
            ask.search(["a cat"], top_k=1, hybrid=True)[0],
        )
    assert scores.verdicts is not None and scores.decision is not None
    assert [verdict.answer for verdict in scores.verdicts] == ["yes", "no", "yes"]
    assert str(scores.verdicts[0]) == "duplicate: yes, 98 % sure"
    assert (scores.decision["threshold"], scores.decision["file"]) == (0.9, "pairs.tsv")
    assert str(near.verdict) == str(word.verdict) == str(scores.verdicts[0])
    assert far.verdict is not None and far.verdict.accepted is False


def test_our_client_without_decisions(site: Live) -> None:
    with Client(site.url) as client:
        scores = client.similarity([("a", "b")])
        assert (scores.verdicts, scores.decision) == (None, None)
        assert client.search(["a dog"], top_k=1)[0][0].verdict is None


def test_our_client_comes_back_when_the_queue_is_full() -> None:
    with live(queue_requests=1, model="slow:0.05") as site:

        def ask(number: int) -> int:
            with Client(site.url, retries=20) as client:
                return len(client.embed([f"text {number}"]))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, range(4))) == [1] * 4


def test_our_client_says_when_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TertiumError, match="No server answers"):
        Client(f"http://127.0.0.1:{port}", retries=1).models()


@pytest.mark.parametrize("name", ["python_client.py", "openai_client.py"])
def test_examples_run(name: str, site: Live) -> None:
    command = [sys.executable, str(ROOT / "examples" / "serve" / name), site.url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0 and ran.stdout, ran.stderr


def ask_with_the_example(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "serve" / "python_client.py"), url]
    plain = {name: value for name, value in os.environ.items() if name != "TERTIUM_KEY"}
    env = {**plain, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_the_example_gives_its_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("a-key-of-enough-letters\n")
    with live(keys=file) as site:
        ran = ask_with_the_example(site.url, TERTIUM_KEY="a-key-of-enough-letters")
        assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout
        ran = ask_with_the_example(site.url)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ") and ran.stderr.count("\n") == 1
    assert "key" in ran.stderr


def test_the_example_says_when_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = ask_with_the_example(f"http://127.0.0.1:{port}")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"error: No server answers at http://127.0.0.1:{port}.\n"


def test_the_example_with_curl_runs(site: Live) -> None:
    command = ["sh", str(ROOT / "examples" / "serve" / "curl.sh"), site.url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode == 127:
        pytest.skip("no curl on this machine")
    assert ran.returncode == 0 and '"scores":[' in ran.stdout, ran.stderr


def test_no_request_that_the_description_allows_or_forbids_breaks_the_server(site: Live) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as described

    conform = [
        described.status_code_conformance,
        described.content_type_conformance,
        described.response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{site.url}/openapi.json")
    statuses: Counter[int] = Counter()
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    for operation in (each.ok() for each in schema.get_all_operations()):
        for mode in modes:
            if mode is modes[1] and operation.method == "get":
                continue  # there is nothing to get wrong

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=10,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def fuzz(case: Any) -> None:
                answer = case.call()
                statuses[answer.status_code] += 1
                able = answer.status_code in (501, 503)  # there is no such model, and it says so
                case.validate_response(
                    answer, checks=conform if able else [checks.not_a_server_error, *conform]
                )

            fuzz()
    assert statuses[200] > 20 and statuses[400] > 20, statuses


def test_every_answer_is_as_described(site: Live) -> None:
    described = httpx.get(f"{site.url}/openapi.json").json()
    assert {path for path in described["paths"] if path.startswith("/v1")} == {
        f"/v1/{name}"
        for name in (
            *("embeddings", "similarity", "conditional", "explain", "search", "rerank", "models"),
        )
    }
    jsonschema = pytest.importorskip("jsonschema")
    for path, body in (
        ("embeddings", {"input": TEXTS}),
        ("similarity", {"pairs": [TEXTS[:2]]}),
        ("conditional", {"triples": [TEXTS]}),
        ("explain", {"a": "a", "b": "b"}),
        ("search", {"query": "a"}),
        ("rerank", {"query": "a", "documents": TEXTS, "return_documents": True}),
        ("rerank", {"query": "a", "texts": TEXTS}),
        ("similarity", {}),
    ):
        answer = httpx.post(f"{site.url}/v1/{path}", json=body)
        told = described["paths"][f"/v1/{path}"]["post"]["responses"][str(answer.status_code)]
        schema = told["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": described["components"]})


def test_a_thousand_tiny_requests(site: Live) -> None:
    def some(number: int) -> Counter[int]:
        with httpx.Client(base_url=site.url) as client:
            return Counter(
                client.post("/v1/embeddings", json={"input": f"{number} {n}"}).status_code
                for n in range(125)
            )

    with ThreadPoolExecutor(8) as pool:
        found = sum(pool.map(some, range(8)), Counter[int]())
    assert found == {200: 1000}


def test_slow_clients_hold_nobody_up() -> None:
    with live(deadline=3.0) as site:
        body = b'{"input": "a cat"}'
        slow = [raw(site, request(body[:5], length=len(body))) for _ in range(50)]
        idle = [raw(site, b"POST /v1/emb") for _ in range(50)]
        with Client(site.url) as client:
            assert len(client.embed(["quick"])) == 1
        assert site.service.queue.held == 0
        assert b" 408 " in slow[0].recv(200)
        for connection in (*slow, *idle):
            connection.close()


def test_large_bodies_are_refused_while_they_come(site: Live) -> None:
    connection = raw(site, request(b"", length=10_000_000))
    assert b" 413 " in connection.recv(200)
    connection.close()
    answer = httpx.post(f"{site.url}/v1/embeddings", json={"input": "x" * 10_000_000})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "content",
    [
        request(b'{"input": "\xc3\x28\xa0\xa1"}'),
        request(b"\x00" * 100),
        b"GET /healthz HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"/a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request(content: bytes, site: Live) -> None:
    connection = raw(site, content)
    connection.shutdown(socket.SHUT_WR)
    answer = connection.recv(300)
    connection.close()
    assert b" 5" not in answer[:12]
    assert httpx.get(f"{site.url}/healthz").status_code == 200


def test_what_a_closed_connection_asked_for_is_dropped() -> None:
    with live() as site:
        busy = raw(site, request(b'{"input": "sleep 1.5"}'))
        time.sleep(0.1)
        for number in range(20):
            raw(site, request(json.dumps({"input": f"deserted {number}"}).encode())).close()
        assert b" 200 " in busy.recv(100)
        busy.close()
        with Client(site.url) as client:
            client.embed(["last"])
        texts = site.service.metrics.registry.get_sample_value(
            *("tertium_texts_total", {"model": "hash"})
        )
        assert texts is not None and texts < 12
        assert site.service.queue.held == 0


def test_keys_change_under_load(tmp_path: Path) -> None:
    keys = [f"key-number-{number}-0123456789" for number in range(4)]
    file = tmp_path / "keys"
    file.write_text("\n".join(keys[:2]))
    stop = threading.Event()
    found: list[Counter[int]] = [Counter() for _ in keys]
    with live(keys=file) as site:

        def ask(number: int) -> None:
            headers = {"authorization": f"Bearer {keys[number]}"}
            with httpx.Client(base_url=site.url, headers=headers) as client:
                while not stop.is_set():
                    answer = client.post("/v1/embeddings", json={"input": "a"})
                    found[number][answer.status_code] += 1

        def until(*wanted: tuple[int, int]) -> None:
            end = time.monotonic() + 60
            while not all(found[number][status] > 3 for number, status in wanted):
                assert time.monotonic() < end, found
                time.sleep(0.05)

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask, number) for number in range(4)]
            try:
                until((0, 200), (1, 200), (2, 401), (3, 401))
                file.write_text("\n".join([*keys[1:3], ""]))  # 0 goes, 2 comes
                until((0, 401), (2, 200))
            finally:
                stop.set()
        for each in asking:
            each.result()
    assert set(found[1]) == {200} and set(found[3]) == {401}
