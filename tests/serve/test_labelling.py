"""Labels: proposals, the file, the page by keyboard, and what other programs export."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import tertium
from tertium.corpus.labelling import _dropout_spread, propose
from tertium.data.ratings import LabelFile, Rating, read_answers, write_tasks
from tertium.errors import TertiumError
from tertium.serve.labelling import Session, build_app
from tests.fakes import HashEncoder
from tests.serve.test_page import CHROMIUM, browser, check_axe, needs_axe, page  # noqa: F401

PAIRS = [(f"left {at}", f"right {at}") for at in range(5)]
GRADES = {str(grade): float(grade) for grade in range(6)}
WORDS = {str(grade): f"grade {grade}" for grade in range(6)}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(PAIRS, LabelFile(tmp_path / "labels.jsonl"), GRADES, WORDS)


@pytest.fixture
def client(session: Session) -> TestClient:
    return TestClient(build_app(session, hosts=("testserver",)), base_url="http://testserver")


def post(client: TestClient, path: str, **body: Any) -> Any:
    return client.post(f"/v1/label{path}", json=body)


def test_proposals_cover_the_range_and_are_a_prefix_of_more() -> None:
    pool = [(f"left {at}", f"right {at}") for at in range(500)]
    model = HashEncoder()
    ten, forty = (propose(pool, model, count=n) for n in (10, 40))
    assert forty[:10] == ten and len(set(forty)) == 40
    assert propose(pool[::-1], model, count=10) == ten
    scores = model.score(ten)
    assert np.ptp(scores) > 0.8 * np.ptp(model.score(pool))


def test_proposals_prefer_disagreement() -> None:
    pool = [(f"left {at}", f"right {at}") for at in range(400)]
    one, two = HashEncoder("one"), HashEncoder("two")
    chosen = propose(pool, one, count=40, second=two)

    def apart(pairs: list[tuple[str, str]]) -> float:
        return float(np.abs(one.score(pairs) - two.score(pairs)).mean())

    assert apart(chosen) > 1.2 * apart(pool)


@pytest.mark.filterwarnings("ignore:.*do not look English")
def test_proposals_prefer_what_dropout_changes(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["cat", "dog", "sleeps", "barks", "the", "a", "b", "c", "d", "e"]
    pool = [(f"{one} {two}", f"{two} {three}") for one in words for two in words for three in words]
    model = tertium.load(tiny_bert, engine="torch")
    spread = dict(zip(pool, _dropout_spread(pool, model, seed=0, progress=False), strict=True))
    chosen = propose(pool, model, count=20, dropout=True)
    assert chosen == propose(pool[::-1], tertium.load(tiny_bert), count=20, dropout=True)
    assert np.mean([spread[pair] for pair in chosen]) > 1.2 * np.mean([*spread.values()])
    assert not model.encoder.model.training
    with pytest.raises(TertiumError, match="take one of both"):
        propose(pool, model, count=3, dropout=True, second=model)
    with pytest.raises(TertiumError, match="gives no vectors"):
        propose(pool, tertium.load("judge"), count=3, dropout=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TertiumError, match=r"Disagreement with dropout needs .*tertium\[train\]"):
        propose(pool, model, count=3, dropout=True)


def test_nothing_to_label() -> None:
    with pytest.raises(TertiumError, match="no pairs"):
        propose([], HashEncoder(), count=3)


def test_labels_are_saved_one_by_one_undone_and_skipped(
    client: TestClient, session: Session
) -> None:
    state = post(client, "/state", rater="ann").json()
    assert (state["done"], state["total"], state["item"]["id"]) == (0, 5, 0)
    state = post(client, "", rater="ann", id=0, label=4).json()
    assert state["done"] == 1 and state["item"]["id"] == 1
    assert json.loads(session.file.path.read_text()) == {
        "sentence1": "left 0",
        "sentence2": "right 0",
        "label": 4,
        "rater": "ann",
    }
    state = post(client, "", rater="ann", id=1, label=None).json()
    assert (state["skipped"], state["item"]["id"]) == (1, 2)
    state = post(client, "/undo", rater="ann").json()
    assert (state["skipped"], state["item"]["id"]) == (0, 1)
    state = post(client, "/undo", rater="ann").json()
    assert (state["done"], state["item"]["id"]) == (0, 0)
    assert session.file.path.read_text() == ""


@pytest.mark.parametrize(
    "body, status",
    [
        ({"rater": "ann", "id": 9, "label": 1}, 404),
        ({"rater": "ann", "id": 0, "label": 7}, 400),
        ({"rater": " ", "id": 0, "label": 1}, 400),
        ({"id": 0, "label": 1}, 400),
    ],
)
def test_wrong_answers_are_refused(
    client: TestClient, session: Session, body: dict[str, Any], status: int
) -> None:
    assert post(client, "", **body).status_code == status
    assert not session.file.path.exists()


def test_a_pair_is_labelled_once_by_each(client: TestClient) -> None:
    assert post(client, "", rater="ann", id=0, label=4).status_code == 200
    assert post(client, "", rater="ann", id=0, label=1).status_code == 409
    assert post(client, "", rater="bob", id=0, label=1).status_code == 200


def test_two_raters_at_once(client: TestClient, session: Session) -> None:
    def work(rater: str) -> None:
        for number in range(5):
            assert post(client, "", rater=rater, id=number, label=number).status_code == 200

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ("ann", "bob")))
    again = LabelFile(session.file.path)
    assert len(again.ratings) == 10
    assert again.rated("ann") == again.rated("bob") == set(PAIRS)


def test_another_name_is_refused(session: Session) -> None:
    client = TestClient(build_app(session, hosts=("localhost",)), base_url="http://evil.example")
    assert client.get("/").status_code == 421


def test_a_torn_line_is_dropped_and_a_wrong_one_named(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    kept = Rating(("a", "b"), "ann", 3.0)
    file.write_text(kept.line() + '{"sentence1": "c", "sen')
    assert LabelFile(file).ratings == [kept]
    assert file.read_text() == kept.line()
    file.write_text(kept.line() + '{"sentence1": "c"}\n')
    with pytest.raises(TertiumError, match=r"labels\.jsonl:2"):
        LabelFile(file)


def test_labels_survive_kill_9(tmp_path: Path, tiny_bert: Path) -> None:
    pool = tmp_path / "pool.txt"
    pool.write_text("a b c\nd e f\ng h i\nthe cat sleeps\nthe dog barks\nx y z\n")
    command = [sys.executable, "-m", "tertium", "label", str(pool), "-o", "labels.jsonl"]
    command += ["--model", str(tiny_bert), "--count", "6", "--port", "0", "--json"]
    answered = 0
    for _ in range(2):
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=quiet, text=True
        ) as process:
            late = threading.Timer(120, process.kill)
            late.start()
            try:
                assert process.stdout is not None
                text = ""
                while not text.rstrip().endswith("}"):
                    text += process.stdout.readline()
                    assert process.poll() is None
                url = json.loads(text)["url"]

                def ask(path: str, url: str = url, **body: Any) -> Any:
                    data = json.dumps({"rater": "ann", **body}).encode()
                    asked = urllib.request.Request(
                        f"{url}/v1/label{path}", data, {"content-type": "application/json"}
                    )
                    with urllib.request.urlopen(asked, timeout=30) as answer:
                        return json.load(answer)

                state = ask("/state")
                assert state["done"] == answered
                for _ in range(2):
                    state = ask("", id=state["item"]["id"], label=3)
                    answered += 1
            finally:
                late.cancel()
                process.kill()
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 4


def test_label_studio_and_argilla_there_and_back(tmp_path: Path) -> None:
    names = {"yes": 1.0, "no": 0.0}
    studio, argilla = tmp_path / "studio.json", tmp_path / "argilla.json"
    write_tasks(studio, PAIRS, "label-studio", labels=["yes", "no"])
    write_tasks(argilla, PAIRS, "argilla", labels=["yes", "no"])
    tasks = json.loads(studio.read_text())
    for task in tasks:
        task["annotations"] = [
            {"completed_by": {"email": "ann@x"}, "result": [{"value": {"choices": ["Yes"]}}]},
            {"completed_by": 7, "result": [{"value": {"rating": 4}}]},
            {"completed_by": 8, "was_cancelled": True, "result": []},
        ]
    studio.write_text(json.dumps(tasks))
    found = read_answers(studio, names=names)
    assert [(r.rater, r.label) for r in found[:2]] == [("ann@x", 1.0), ("7", 4.0)]
    assert {r.pair for r in found} == set(PAIRS) and len(found) == 10
    records = json.loads(argilla.read_text())
    records[0]["responses"] = {
        "similarity": [
            {"value": "no", "user_id": "u1", "status": "submitted"},
            {"value": "yes", "user_id": "u2", "status": "discarded"},
        ]
    }
    argilla.write_text(json.dumps(records))
    assert read_answers(argilla, names=names) == [Rating(PAIRS[0], "u1", 0.0)]


SENTENCES = {"sentence1": "a", "sentence2": "b"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "it is not JSON"),
        ('[{"data": ', "it is not JSON"),
        ('{"not": "a list"}', "it is not a list"),
        ("[3]", "entry 1 of its list lacks"),
        ([{"data": SENTENCES, "annotations": []}, {"data": {"text": "a"}}], "entry 2 of its list"),
        ([{"data": SENTENCES, "annotations": [{"result": [{"value": {}}]}]}], "value of an answer"),
        ([{"data": SENTENCES, "annotations": [{"result": [{"value": {"choices": []}}]}]}], "value"),
        ([{"data": SENTENCES, "annotations": [{}]}], "value of an answer"),
        ([{"data": SENTENCES, "annotations": 3}], "value of an answer"),
        ([{"fields": SENTENCES, "responses": {"q": [{"value": "x"}]}}], "'x', which is neither a"),
        ([{"fields": SENTENCES, "responses": {"q": [{"value": "NaN"}]}}], "one of: yes, no"),
    ],
)
def test_exports_that_are_none(tmp_path: Path, content: Any, fault: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(TertiumError, match=fault) as raised:
        read_answers(path, names={"yes": 1.0, "no": 0.0})
    assert "Error" not in str(raised.value) and str(raised.value).startswith(str(path))


@pytest.fixture
def site(session: Session) -> Iterator[str]:
    import uvicorn

    app = build_app(session, hosts=("127.0.0.1",))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_the_page_by_keyboard_alone(page: Any, site: str, session: Session) -> None:  # noqa: F811
    page.goto(site)
    page.keyboard.press("Tab")
    page.keyboard.type("ann")
    page.keyboard.press("Enter")
    page.get_by_text("left 0", exact=True).wait_for()
    for key, next_ in (("4", "left 1"), ("s", "left 2"), ("0", "left 3"), ("5", "left 4")):
        page.keyboard.press(key)
        page.get_by_text(next_, exact=True).wait_for()
    page.keyboard.press("u")
    page.get_by_text("left 3", exact=True).wait_for()
    page.keyboard.press("1")
    page.get_by_text("left 4", exact=True).wait_for()
    assert "ann: 3 of 5, 1 skipped" in page.inner_text("#progress")
    page.keyboard.press("2")
    page.get_by_text("Thank you").wait_for()
    assert [r.label for r in session.file.ratings] == [4.0, 0.0, 1.0, 2.0]


@needs_axe
@pytest.mark.integration
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_out_of_reach(page: Any, site: str, scheme: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme)
    page.goto(site)
    check_axe(page)
    page.get_by_role("textbox").fill("ann")
    page.get_by_role("button", name="Begin").click()
    page.get_by_text("left 0", exact=True).wait_for()
    check_axe(page)
