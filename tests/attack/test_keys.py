"""A server with keys, on IPv6, which a page of another origin may call: who gets in."""

import contextlib
import hashlib
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tertium.corpus import Index
from tests.attack.client import SMALL, ask, exchange, read, statuses, until
from tests.serve.fakes import FakeModel
from tests.serve.process import Site, started
from tests.serve.test_page import CHROMIUM, browser

__all__ = ["browser"]  # the fixture

KEY = "a-key-0123456789"
HASHED = "another-key-0123456789"
ORIGIN = "https://app.example"
MARKUP = (
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "\"><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "</textarea><iframe srcdoc='<script>parent.document.title=1</script>'>",
    "{{constructor.constructor('document.title=1')()}}",
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys"


@pytest.fixture(scope="module")
def site(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("search") / "index"
    Index.build(folder, list(MARKUP), FakeModel("hash"))
    keys.write_text(content())
    flags = {"host": "::1", "model": "hash", "conditional_model": "respects"}
    with started(**flags, index=folder, keys=keys, cors_origins=[ORIGIN]) as found:
        assert found.url.startswith("http://[::1]:")
        yield found
        log = found.log.read_text()
        assert KEY not in log and HASHED not in log and "Traceback" not in log


def content() -> str:
    return f"{KEY}\nsha256:{hashlib.sha256(HASHED.encode()).hexdigest()}  # hashed\n"


def asked(site: Site, authorization: str | None, path: str = "/v1/embeddings") -> int:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = ask(site, path, SMALL if path == "/v1/embeddings" else None, **headers)
    if answer.status == 401:
        assert answer.code == "unauthorised" and answer.headers["www-authenticate"] == "Bearer"
    return answer.status


def test_keys_open_and_nothing_else_does(site: Site) -> None:
    assert asked(site, f"Bearer {KEY}") == asked(site, f"Bearer {HASHED}") == 200
    digest = hashlib.sha256(HASHED.encode()).hexdigest()
    for wrong in (
        *(None, "", "Bearer", "Bearer ", "Bearer\t", HASHED, f"Basic {HASHED}", f"Bearer{HASHED}"),
        *(f"Bearer {HASHED[:-1]}", f"Bearer {HASHED}x", f"Bearer {HASHED.upper()}", "Bearer null"),
        *(f"Bearer {digest}", f"Bearer sha256:{digest}", f"Bearer {HASHED} {HASHED}", "Bearer #"),
        *(f"Bearer {HASHED},{HASHED}", f"Bearer ,{HASHED}", "Bearer " + "a" * 50_000),
        *("Bearer \xff\xfe", "Bearer \xed\xa0\x80", "Bearer ' OR 1=1 --", "Bearer ../../keys"),
        *("Bearer %00", "Bearer # hashed", "Bearer \u00a0", f"Bearer {HASHED}\xa0x"),
    ):
        for path in ("/v1/embeddings", "/v1/models", "/metrics"):
            assert asked(site, wrong, path) == 401, (wrong, path)


def test_two_keys_are_one_too_many(site: Site) -> None:
    head = f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {HASHED}\r\n"
    for second in (f"Authorization: Bearer {HASHED}\r\n", "authorization: x\r\n"):
        assert statuses(exchange(site, f"{head}{second}Connection: close\r\n\r\n".encode())) == [
            400
        ]


@pytest.mark.parametrize(
    "path",
    [
        *("//v1/models", "/V1/models", "/v1/./models", "/x/../v1/models", "/%76%31/models"),
        *("/v1%2fmodels", "/v1/models/", "/v1//models", "/v1/models;x", "/v1/models%20"),
        *("http://localhost/v1/models", "http://localhost//v1/models", "/metrics/", "/%6detrics"),
        *("/METRICS", "/metrics%00", "/docs/../metrics", "/v1/models?x=/healthz", "/v1\\models"),
    ],
)
def test_no_spelling_of_a_path_goes_without_a_key(site: Site, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    (status,) = statuses(exchange(site, request.encode()))
    assert status in (400, 401, 404)


def test_other_methods_need_the_key_too(site: Site) -> None:
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"):
        request = f"{method} /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert statuses(exchange(site, request.encode())) == [401]


def test_a_file_of_keys_that_is_spoilt_lets_nobody_new_in(site: Site, keys: Path) -> None:
    for spoilt in (b"\xff\xfe\x00", b"short", b"two words are no key at all", b"\x00" * 8, None):
        if spoilt is None:
            keys.unlink()
        else:
            keys.write_bytes(spoilt)
        before = site.log.read_text().count("keeping the previous keys")
        until(
            lambda before=before: (
                asked(site, f"Bearer {HASHED}") == 200
                and site.log.read_text().count("keeping the previous keys") > before
            )
        )
        assert asked(site, "Bearer short") == 401
    keys.write_text("")
    until(lambda: asked(site, f"Bearer {HASHED}") == 401)
    keys.write_text(content())
    until(lambda: asked(site, f"Bearer {HASHED}") == 200)


def test_only_the_page_that_was_named_may_call(site: Site) -> None:
    ask_first = {"Access-Control-Request-Method": "POST"}
    for origin in ("https://evil.example", f"{ORIGIN}.evil.example", ORIGIN.upper(), "null", ""):
        answer = preflight(site, Origin=origin, **ask_first)
        assert "access-control-allow-origin" not in answer.headers and answer.status != 200
        answer = ask(site, "/v1/models", Origin=origin, Authorization=f"Bearer {HASHED}")
        assert "access-control-allow-origin" not in answer.headers
    answer = preflight(site, Origin=ORIGIN, **ask_first)
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == ORIGIN
    answer = ask(site, "/v1/models", Origin=ORIGIN)  # without a key, and it may read why
    assert answer.status == 401 and answer.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-credentials" not in answer.headers


def preflight(site: Site, **headers: str) -> Any:
    with contextlib.closing(http.client.HTTPConnection(*site.address)) as connection:
        connection.request("OPTIONS", "/v1/embeddings", headers=headers)
        return read(connection.getresponse())


def test_stored_markup_stays_text_for_programs(site: Site) -> None:
    query = json.dumps({"query": MARKUP[0], "top_k": len(MARKUP)}).encode()
    answer = ask(site, "/v1/search", query, Authorization=f"Bearer {HASHED}")
    assert {hit["text"] for hit in answer.json["results"][0]} == set(MARKUP)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_stored_markup_is_only_text_in_a_browser(site: Site, browser: Any) -> None:
    context = browser.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    strangers: list[str] = []
    page.on(
        "request", lambda sent: strangers.append(sent.url) if site.url not in sent.url else None
    )
    page.on("dialog", lambda dialog: strangers.append(dialog.message))
    page.goto(f"{site.url}/#search?q={MARKUP[1].replace('=', '%3D')}")
    page.wait_for_selector("#key:visible")
    title = page.title()
    page.keyboard.type(HASHED)
    page.keyboard.press("Enter")
    page.wait_for_selector("#hits-list li")
    shown = page.inner_text("#hits-list")
    assert all(text in shown for text in MARKUP)
    assert page.locator("#hits-list :is(script, img, svg, iframe)").count() == 0
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("First text").fill(MARKUP[1])
    page.get_by_label("Second text").fill(MARKUP[0])
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("#words")
    assert page.title() == title and not strangers
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert HASHED not in page.url
    context.close()


def test_the_file_of_keys_is_never_served(site: Site, keys: Path) -> None:
    for path in (str(keys), f"/{os.path.relpath(keys)}", f"/static{keys}"):
        assert ask(site, path).status in (400, 404)
