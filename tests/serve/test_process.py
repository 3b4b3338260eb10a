"""The server as a process of its own, told to stop, or killed, under load."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.serve.process import resident, started

pytestmark = pytest.mark.integration
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@posix
def test_what_was_accepted_is_answered_before_the_end() -> None:
    with started() as site, httpx.Client(base_url=site.url, timeout=60) as client:

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
            site.process.send_signal(signal.SIGTERM)
            statuses = Counter(each.result() for each in asked)
        assert statuses == {200: 20} and blocker.result().status_code == 200
        assert site.process.wait(30) == 0
        assert "stopped: 21 accepted, 21 answered" in site.log.read_text()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{site.url}/healthz")


@posix
@pytest.mark.long
def test_a_killed_worker_is_replaced_and_a_killed_server_leaves_none() -> None:
    with started(deadline=600) as site:
        killed = site.workers()
        assert len(killed) == 1
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(
                    httpx.post,
                    f"{site.url}/v1/embeddings",
                    json={"input": f"text {n}"},
                    timeout=600,
                )
                for n in range(8)
            ]
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            assert Counter(each.result().status_code for each in asked) == {200: 8}
        now = site.family()
        assert site.workers() and not now & killed
        site.process.kill()
        site.process.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{child}").exists() for child in now):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@posix
@pytest.mark.long
def test_memory_stays_flat_while_more_ask_than_it_can_answer() -> None:
    """A short form of benchmarks/serve_soak.py."""
    with started(model="hash", queue_requests=4) as site:

        def ask(number: int) -> Counter[int]:
            with httpx.Client(base_url=site.url) as client:
                return Counter(
                    client.post("/v1/embeddings", json={"input": [f"{number} {n}"] * 8}).status_code
                    for n in range(100)
                )

        found: Counter[int] = Counter()
        sizes = []
        with ThreadPoolExecutor(8) as pool:
            for _ in range(3):
                for each in pool.map(ask, range(8)):
                    found += each
                sizes.append(sum(map(resident, [site.process.pid, *site.family()])))
        assert set(found) == {200, 429} and sum(found.values()) == 2400
        assert sizes[2] < 1.03 * sizes[0]


def test_the_process_that_answers_holds_no_model() -> None:
    script = "import sys, tertium.serve.app; print('torch' in sys.modules)"
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
