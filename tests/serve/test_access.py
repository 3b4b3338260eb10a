import hashlib
import logging
from pathlib import Path

import pytest

from tertium.errors import TertiumError
from tertium.serve.access import KeyFile
from tests.serve.here import awaited, running

KEY = "a-key-0123456789"
BODY = {"input": "a private text"}


@awaited
async def test_keys_are_asked_for_where_texts_are_read(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(KEY)
    async with running(keys=file) as client:
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
            answer = await client.post("/v1/embeddings", json=BODY, headers=header)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["type"] == "authentication_error"
        key = {"authorization": f"Bearer {KEY}"}
        assert (await client.post("/v1/embeddings", json=BODY, headers=key)).status_code == 200
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=key)).status_code == 200
        for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("name", ["host", "authorization"])
def test_headers_that_decide_who_asks_what_come_once(name: str, tmp_path: Path) -> None:
    @awaited
    async def test() -> None:
        file = tmp_path / "keys"
        file.write_text(KEY)
        async with running(keys=file) as client:
            value = {"host": "localhost", "authorization": f"Bearer {KEY}"}
            headers = [*value.items(), (name, value[name])]
            answer = await client.post("/v1/embeddings", json=BODY, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "duplicate_header")

    test()


@awaited
async def test_other_names_are_not_answered() -> None:
    async with running() as client:
        for host, status in (("localhost:80", 200), ("[::1]:80", 200), ("evil.example", 421)):
            answer = await client.get("/healthz", headers={"host": host})
            assert answer.status_code == status
    async with running(allowed_hosts=["sts.example"]) as client:
        assert (await client.get("/healthz", headers={"host": "STS.example"})).status_code == 200
        assert (await client.get("/healthz")).status_code == 421


@awaited
async def test_pages_of_other_origins_may_call_only_if_they_are_named(tmp_path: Path) -> None:
    origin = {"origin": "https://a.example"}
    ask = {**origin, "access-control-request-method": "POST"}
    async with running() as client:
        answer = await client.post("/v1/embeddings", json=BODY, headers=origin)
        assert "access-control-allow-origin" not in answer.headers
        assert (await client.options("/v1/embeddings", headers=ask)).status_code == 405
    file = tmp_path / "keys"
    file.write_text(KEY)
    async with running(cors_origins=["https://a.example"], keys=file) as client:
        answer = await client.options("/v1/embeddings", headers=ask)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        other = await client.options(
            "/v1/embeddings", headers={**ask, "origin": "https://b.example"}
        )
        assert "access-control-allow-origin" not in other.headers
        assert other.status_code == 400 and other.json()["error"]["code"] == "cors_refused"
        refused = await client.post("/v1/embeddings", json=BODY, headers=origin)
        assert refused.status_code == 401  # which the page can read
        assert refused.headers["access-control-allow-origin"] == "https://a.example"
        assert refused.headers["access-control-expose-headers"] == "Retry-After"


@awaited
async def test_a_failure_of_the_server_is_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(cors_origins=["https://a.example"]) as client:
        monkeypatch.setattr(client.service, "ask", None)
        headers = {"origin": "https://a.example"}
        answer = await client.post("/v1/embeddings", json=BODY, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")
    assert answer.headers["access-control-allow-origin"] == "https://a.example"


@awaited
async def test_answers_tell_browsers_what_they_may_do() -> None:
    async with running() as client:
        page = await client.get("/")
        answer = await client.post("/v1/embeddings", json=BODY)
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@awaited
async def test_texts_are_never_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("tertium.serve").propagate = True
    caplog.set_level(logging.DEBUG)
    async with running(access_log=True) as client:
        await client.post("/v1/embeddings?private=1", json=BODY)
        await client.post("/v1/embeddings", json={"input": "fail"})
        await client.get("/private")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("tertium")]
    written = "\n".join([*ours, *capfd.readouterr()])
    assert "POST /v1/embeddings 200" in written and "RuntimeError" in written
    assert "private" not in written and "'fail'" not in written


OLD, NEW = "old-key-0123456789", "new-key-0123456789"


def test_keys_as_they_are_and_hashed(tmp_path: Path) -> None:
    hashed = hashlib.sha256(NEW.encode()).hexdigest()
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{OLD}  # for the web shop\n\nsha256:{hashed}\n")
    keys = KeyFile(file)
    assert keys.accepts(OLD) and keys.accepts(NEW)
    assert not keys.accepts("") and not keys.accepts(OLD + "x") and not keys.accepts(hashed)
    assert not keys.accepts(f"sha256:{hashed}")


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(OLD)
    keys = KeyFile(file, look_every=0)
    file.write_text(f"{NEW}\n")
    assert keys.accepts(NEW) and not keys.accepts(OLD)
    file.write_text("")  # nobody, rather than everybody
    assert not keys.accepts(NEW) and not keys.accepts("")


def test_a_file_that_cannot_be_read_leaves_the_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(OLD)
    keys = KeyFile(file, look_every=0)
    logging.getLogger("tertium.serve").propagate = True
    file.write_text("two words\n")
    assert keys.accepts(OLD)
    file.unlink()
    assert keys.accepts(OLD)
    assert "keeping the previous keys" in caplog.text and OLD not in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "contains no keys"),
        ("# none\n", "contains no keys"),
        ("short\n", "line 1 is not a key"),
    ],
)
def test_a_file_without_keys_stops_the_start(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(TertiumError, match=said):
        KeyFile(file)
    with pytest.raises(TertiumError, match="cannot be read"):
        KeyFile(tmp_path / "none")
