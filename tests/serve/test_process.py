"""The server as a process of its own, told to stop, or killed, under load."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.integration
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@contextlib.contextmanager
def started(**flags: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    chosen = {"port": 0, "model": "slow:0.05", "conditional_model": "none", "threads": 1}
    settings = json.dumps({**chosen, **flags})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.process", settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.stderr and process.stderr.read()
        yield process, url
    finally:
        process.kill()
        process.communicate()


def children(process: int) -> set[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {int(child) for child in found}


def workers(process: int) -> set[int]:
    """Forked from a child of the server, which has imported everything."""
    return {worker for child in children(process) for worker in children(child)}


def family(process: int) -> set[int]:
    return children(process) | workers(process)


@posix
def test_what_was_accepted_is_answered_before_the_end() -> None:
    with started() as (process, url), httpx.Client(base_url=url, timeout=60) as client:

        def ask(number: int) -> int:
            texts = [f"text {number} {n}" for n in range(4)]
            answer = client.post("/v1/embeddings", json={"input": texts})
            return answer.status_code if len(answer.json()["data"]) == 4 else 0

        def accepted() -> int:
            text = client.get("/metrics").text
            line = next(x for x in text.splitlines() if x.startswith("tertium_queue_requests "))
            return int(float(line.split()[1]))

        with ThreadPoolExecutor(24) as pool:
            blocker = pool.submit(client.post, "/v1/embeddings", json={"input": "sleep 2"})
            asked = [pool.submit(ask, number) for number in range(20)]
            deadline = time.monotonic() + 20
            while accepted() < 21 and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            statuses = Counter(each.result() for each in asked)
        assert statuses == {200: 20} and blocker.result().status_code == 200
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "stopped: 21 accepted, 21 answered" in process.stderr.read()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")


@posix
@pytest.mark.long
def test_a_killed_worker_is_replaced_and_a_killed_server_leaves_none() -> None:
    with started(deadline=600) as (process, url):
        killed = workers(process.pid)
        assert len(killed) == 1
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(
                    httpx.post, f"{url}/v1/embeddings", json={"input": f"text {n}"}, timeout=600
                )
                for n in range(8)
            ]
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            assert Counter(each.result().status_code for each in asked) == {200: 8}
        now = family(process.pid)
        assert workers(process.pid) and not now & killed
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{child}").exists() for child in now):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@posix
@pytest.mark.long
def test_memory_stays_flat_while_more_ask_than_it_can_answer() -> None:
    """A short form of benchmarks/serve_soak.py."""
    with started(model="hash", queue_requests=4) as (process, url):

        def ask(number: int) -> Counter[int]:
            with httpx.Client(base_url=url) as client:
                return Counter(
                    client.post("/v1/embeddings", json={"input": [f"{number} {n}"] * 8}).status_code
                    for n in range(100)
                )

        def resident() -> int:
            everybody = [process.pid, *family(process.pid)]
            texts = [Path(f"/proc/{each}/status").read_text() for each in everybody]
            sizes = [next(x for x in text.splitlines() if "VmRSS" in x) for text in texts]
            return sum(int(size.split()[1]) for size in sizes)

        found: Counter[int] = Counter()
        sizes = []
        with ThreadPoolExecutor(8) as pool:
            for _ in range(3):
                for each in pool.map(ask, range(8)):
                    found += each
                sizes.append(resident())
        assert set(found) == {200, 429} and sum(found.values()) == 2400
        assert sizes[2] < 1.03 * sizes[0]


def test_the_process_that_answers_holds_no_model() -> None:
    script = "import sys, tertium.serve.run; print('torch' in sys.modules)"
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "./nowhere"], "There is no folder nowhere"),
        (["--port", "99999"], "--port: "),
        pytest.param(["--engine", "coal"], "No engine 'coal'", marks=pytest.mark.long),
        (["--keys", "./nowhere"], "cannot be read"),
    ],
)
def test_what_is_wrong_ends_the_start_with_one_sentence(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "tertium", "serve", "--port", "0", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 2 and ran.stdout == ""
    assert said in ran.stderr.splitlines()[-1] and "Traceback" not in ran.stderr
