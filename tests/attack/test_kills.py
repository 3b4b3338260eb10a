"""Processes that are killed, stopped or told to end, and an index that is spoilt, under load."""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tertium.corpus import Index
from tests.attack.client import PATIENCE, ask, counted, embed, read, until
from tests.serve.fakes import FakeModel
from tests.serve.process import Site, children, started

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
TEXTS = [f"text {number}" for number in range(2000)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search") / "index"
    Index.build(folder, TEXTS, FakeModel("slow"))
    return folder


@pytest.fixture(scope="module")
def site(index: Path) -> Iterator[Site]:
    with started(
        model="slow:0.02",
        workers=2,
        index=index,
        deadline=600,
        worker_timeout=2.0,
        index_retry=0.2,
        queue_requests=32,
    ) as found:
        yield found


@pytest.fixture(autouse=True)
def _complete(site: Site) -> None:
    """Whatever the test before has killed is there again."""
    until(lambda: counted(site, "tertium_workers_ready") == 2)


class Load:
    """Clients that ask until they are told to stop, and count what they hear."""

    def __init__(self, site: Site, clients: int = 12) -> None:
        self._site = site
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        self._clients = clients
        self.found: Counter[str] = Counter()

    def __enter__(self) -> "Load":
        self._asking = [self._pool.submit(self._ask, number) for number in range(self._clients)]
        until(lambda: self.found["200"] > 20)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for each in self._asking:
            each.result()
        self._pool.shutdown()

    def _ask(self, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            texts = [f"{client} {number} {n}" for n in range(1 + number % 8)]
            self.found[self._once(texts)] += 1

    def _once(self, texts: list[str]) -> str:
        connection = http.client.HTTPConnection(*self._site.address, timeout=PATIENCE)
        with contextlib.closing(connection):
            try:
                connection.connect()
            except ConnectionError:
                return "refused"
            body = json.dumps({"input": texts})
            try:
                kind = {"Content-Type": "application/json"}
                connection.request("POST", "/v1/embeddings", body, kind)
                answer = read(connection.getresponse())
            except (OSError, http.client.HTTPException):
                return "lost"
        if answer.status == 200:
            return "200" if len(answer.json["data"]) == len(texts) else "wrong"
        return f"{answer.status} {answer.code}"


def test_workers_that_are_killed_cost_nobody_an_answer(site: Site) -> None:
    before = counted(site, "tertium_worker_restarts_total")
    with Load(site) as load:
        for round_ in range(1, 5):
            os.kill(random.Random(round_).choice(sorted(site.workers())), signal.SIGKILL)
            until(lambda round_=round_: restarted(site) == before + round_)
            until(lambda: counted(site, "tertium_workers_ready") == 2)
    assert set(load.found) <= {"200", "429 queue_full"}


def restarted(site: Site) -> float:
    return counted(site, "tertium_worker_restarts_total")


def test_all_workers_killed_at_once_cost_nobody_an_answer(site: Site) -> None:
    with Load(site) as load:
        for worker in site.workers():
            os.kill(worker, signal.SIGKILL)
        done = load.found["200"]
        until(lambda: load.found["200"] > done + 50)
    assert set(load.found) <= {"200", "429 queue_full"}


def test_a_stopped_worker_is_replaced_and_costs_nobody_an_answer(site: Site) -> None:
    with Load(site) as load:
        stopped = min(site.workers())
        os.kill(stopped, signal.SIGSTOP)
        until(lambda: not Path(f"/proc/{stopped}").exists())
        until(lambda: counted(site, "tertium_workers_ready") == 2)
    assert set(load.found) <= {"200", "429 queue_full"}
    assert "was silent for" in site.log.read_text()


def test_a_request_that_kills_takes_nobody_along(site: Site) -> None:
    with Load(site) as load:
        deadly = [embed(site, "die") for _ in range(2)]
    assert {(answer.status, answer.code) for answer in deadly} == {(503, "worker_died")}
    assert set(load.found) <= {"200", "429 queue_full"}


def test_the_process_that_forks_workers_can_be_killed(site: Site) -> None:
    """Together with its workers: others are started, and nobody loses an answer."""
    (parent,) = (child for child in children(site.process.pid) if children(child))
    killed = site.workers()
    with Load(site) as load:
        for process in (parent, *killed):
            os.kill(process, signal.SIGKILL)
        until(lambda: len(site.workers() - killed) == 2)
        done = load.found["200"]
        until(lambda: load.found["200"] > done + 50)
    assert set(load.found) <= {"200", "429 queue_full"}


DAMAGE = {
    "cut": lambda file: os.truncate(file, file.stat().st_size // 3),
    "emptied": lambda file: os.truncate(file, 0),
    "overwritten": lambda file: file.write_bytes(os.urandom(file.stat().st_size)),
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize("way", DAMAGE)
def test_an_index_that_is_spoilt_costs_the_search_alone(
    site: Site, index: Path, way: str, tmp_path: Path
) -> None:
    query = json.dumps({"query": TEXTS[7], "top_k": 3}).encode()
    whole = shutil.copytree(index, tmp_path / "whole")
    until(lambda: ask(site, "/v1/search", query).status == 200)
    files = sorted(path for path in index.rglob("*") if path.is_file())
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            DAMAGE[way](file)
    for _ in range(10):
        answer = ask(site, "/v1/search", query)
        assert answer.status == 503 and answer.code in ("index_unavailable", "worker_died")
        assert embed(site, "a cat").status == 200
    shutil.rmtree(index)
    shutil.copytree(whole, index)

    def found() -> bool:
        answer = ask(site, "/v1/search", query)
        return answer.status == 200 and answer.json["results"][0][0]["text"] == TEXTS[7]

    until(found)


def test_told_to_stop_under_load_it_answers_what_it_accepted() -> None:
    with started(model="slow:0.02", workers=2, queue_requests=16, deadline=600) as site:
        with Load(site, clients=24) as load:
            site.process.send_signal(signal.SIGTERM)
            assert site.process.wait(PATIENCE) == 0
        last = site.log.read_text().splitlines()[-1]
    answered = load.found["200"]
    assert last.endswith(f"stopped: {answered} accepted, {answered} answered"), last
    # A connection on which no request had been read yet may be closed without an answer.
    assert set(load.found) <= {"200", "429 queue_full", "refused", "lost"}
