"""What becomes of requests when workers are slow, full, deserted or dead."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.serve import pool
from tertium.serve.protocol import Spec
from tests.serve.fakes import launch_fork
from tests.serve.here import Here, awaited, running

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def ask(client: Here, *texts: str, **headers: str) -> Any:
    return client.post("/v1/embeddings", json={"input": list(texts)}, headers=headers)


def counter(client: Here, name: str) -> float:
    """The sum over all labels."""
    families = client.service.metrics.registry.collect()
    samples = [each for family in families for each in family.samples if each.name == name]
    assert samples
    return sum(each.value for each in samples)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def started(client: Here) -> bool:
    workers = client.service.pool._workers
    return any(pending.started for worker in workers for pending in worker.pending.values())


@awaited
async def test_what_waits_is_run_together() -> None:
    async with running(model="slow:0.05") as client:
        answers = await asyncio.gather(*(ask(client, f"text {n}") for n in range(24)))
        assert {answer.status_code for answer in answers} == {200}
        assert counter(client, "tertium_texts_total") == 24
        assert counter(client, "tertium_batch_tokens_count") < 12


@awaited
async def test_an_idle_worker_does_not_wait_for_company() -> None:
    async with running() as client:
        for n in range(5):
            assert (await ask(client, f"text {n}")).status_code == 200
        assert counter(client, "tertium_batch_tokens_count") == 5


@awaited
async def test_a_full_queue_gives_429_and_says_when_to_come_back() -> None:
    async with running(queue_requests=4) as client:
        first = [asyncio.ensure_future(ask(client, f"sleep 0.8 {n}")) for n in range(4)]
        await until(lambda: client.service.queue.held == 4)
        rest = await asyncio.gather(*(ask(client, f"text {n}") for n in range(20)))
        assert {answer.status_code for answer in rest} == {429}
        assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in rest)
        assert rest[0].json()["error"]["type"] == "rate_limit_error"
        assert {answer.status_code for answer in await asyncio.gather(*first)} == {200}
        assert (await ask(client, "now")).status_code == 200
        assert client.service.queue.held == 0


@awaited
async def test_bodies_count_for_the_queue_too() -> None:
    async with running(queue_bytes=4096, max_body_bytes=4096) as client:
        first = asyncio.ensure_future(ask(client, "sleep 1.5", "x" * 3000))
        await until(lambda: client.service.queue.held == 1)
        assert (await ask(client, "x" * 3000)).status_code == 429
        assert (await ask(client, "small")).status_code == 200
        assert (await first).status_code == 200


@awaited
async def test_the_deadline_gives_504_and_the_work_is_dropped() -> None:
    async with running(deadline=1.0) as client:
        busy = asyncio.ensure_future(ask(client, "sleep 2.5"))
        await until(lambda: started(client))
        late = await ask(client, "never run")
        assert late.status_code == 504 and late.json()["error"]["type"] == "timeout_error"
        assert (await busy).status_code == 504
        await asyncio.sleep(2)
        assert (await ask(client, "run")).status_code == 200
        assert counter(client, "tertium_texts_total") == 2  # the first and the last
        assert not client.service.queue.held


@awaited
async def test_others_are_answered_during_an_explanation_and_the_deadline_ends_it() -> None:
    async with running(model="slow:0.1", deadline=2.0) as client:
        text = " ".join(f"word{n}" for n in range(100))  # 40 parts
        long = asyncio.ensure_future(client.post("/v1/explain", json={"a": text, "b": "a cat"}))
        await until(lambda: started(client))
        assert (await ask(client, "meanwhile")).status_code == 200 and not long.done()
        assert (await long).status_code == 504
        short = await client.post("/v1/explain", json={"a": "a cat", "b": "a dog"})
        assert short.status_code == 200  # and not behind the rest of the long one


@awaited
async def test_what_a_client_deserted_is_not_run() -> None:
    async with running() as client:
        busy = asyncio.ensure_future(ask(client, "sleep 1.0"))
        await until(lambda: started(client))
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/embeddings",
            "raw_path": b"/v1/embeddings",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        }
        messages = [{"type": "http.request", "body": b'{"input": "deserted"}'}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        app: Any = client._transport.app  # type: ignore[attr-defined]
        await app(scope, receive, send)
        assert sent[0]["status"] == 499 and counter(client, "tertium_dropped_total") == 1
        assert (await busy).status_code == 200
        assert (await ask(client, "next")).status_code == 200
        assert counter(client, "tertium_texts_total") == 2


@awaited
async def test_a_bad_request_does_not_spoil_its_batch() -> None:
    async with running(model="slow:0.1") as client:
        texts = ["warm", "good", "fail", "better"]
        answers = await asyncio.gather(*(ask(client, text) for text in texts))
        assert [answer.status_code for answer in answers] == [200, 200, 500, 200]


@awaited
async def test_a_request_that_kills_is_the_only_one_lost() -> None:
    async with running(model="slow:0.1", launch=launch_fork) as client:
        texts = ["warm", "good", "die", "better", "best"]
        answers = await asyncio.gather(*(ask(client, text) for text in texts))
        assert [answer.status_code for answer in answers] == [200, 200, 503, 200, 200]
        assert answers[2].json()["error"]["code"] == "worker_died"
        assert counter(client, "tertium_worker_restarts_total") == 2
        assert (await client.get("/healthz")).status_code == 200
        await until(lambda: client.service.pool.ready)
        assert (await ask(client, "after")).status_code == 200


@awaited
async def test_a_worker_that_is_killed_costs_nobody_an_answer() -> None:
    async with running(model="slow:0.1", launch=launch_fork, workers=2) as client:
        await until(lambda: counter(client, "tertium_workers_ready") == 2)
        asked = [asyncio.ensure_future(ask(client, f"text {n}")) for n in range(20)]
        await asyncio.sleep(0.05)
        client.service.pool._workers[0].process.kill()
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {200}


@awaited
async def test_a_worker_that_hangs_is_noticed_and_replaced() -> None:
    async with running(launch=launch_fork, worker_timeout=1.0) as client:
        hung = client.service.pool._workers[0]
        assert hung.pid is not None
        os.kill(hung.pid, signal.SIGSTOP)
        asked = asyncio.ensure_future(ask(client, "who answers?"))
        await until(lambda: not client.service.pool.ready)
        assert (await client.get("/readyz")).status_code == 503
        assert (await asked).status_code == 200  # by another one
        assert hung not in client.service.pool._workers
        assert (await client.get("/readyz")).json() == {"status": "ok"}
        assert counter(client, "tertium_worker_restarts_total") == 1


@awaited
async def test_a_worker_that_stays_at_one_batch_is_replaced() -> None:
    async with running(launch=launch_fork, worker_timeout=1.0, batch_timeout=0.5) as client:
        stuck = asyncio.ensure_future(ask(client, "sleep 600"))
        await until(lambda: started(client))
        assert (await ask(client, "behind it")).status_code == 200
        answer = await stuck
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "worker_died"


@awaited
async def test_a_worker_that_is_only_busy_is_left_alone() -> None:
    async with running(launch=launch_fork, worker_timeout=0.5) as client:
        assert (await ask(client, "sleep 2")).status_code == 200
        assert counter(client, "tertium_worker_restarts_total") == 0


@awaited
async def test_a_server_that_was_held_up_itself_blames_no_worker() -> None:
    async with running(launch=launch_fork, worker_timeout=0.5) as client:
        time.sleep(2)  # all that happens here stands still
        assert (await ask(client, "still there")).status_code == 200
        assert counter(client, "tertium_worker_restarts_total") == 0


@awaited
async def test_a_worker_that_cannot_be_started_is_tried_again() -> None:
    launches = 0

    def launch(spec: Spec, connection: socket.socket) -> Any:
        nonlocal launches
        launches += 1
        if launches == 2:
            connection.close()
            raise OSError(errno.EMFILE, "Too many open files")
        return launch_fork(spec, connection)

    async with running(launch=launch) as client:
        client.service.pool._workers[0].process.kill()
        await until(lambda: launches == 3 and client.service.pool.ready)
        assert (await ask(client, "after all")).status_code == 200


@awaited
async def test_without_a_worker_there_is_503() -> None:
    async with running(launch=launch_fork, deadline=0.3) as client:
        client.service.pool._spec = None  # type: ignore[assignment]
        client.service.pool._workers[0].process.kill()
        await until(lambda: not client.service.pool.ready)
        assert (await client.get("/readyz")).json() == {"status": "loading"}
        answer = await ask(client, "anything")
        assert answer.status_code == 503 and answer.headers["retry-after"]


@awaited
async def test_what_cannot_be_served_stops_the_start() -> None:
    with pytest.raises(TertiumError, match="has no embeddings: give it with --conditional-model"):
        async with running(model="respects"):
            pass
    with pytest.raises(TertiumError, match="holds no index"):
        async with running(index="nowhere"):
            pass


def test_workers_are_forked_from_a_process_that_has_imported_everything() -> None:
    modules = [name for name in pool._PRELOADED if name != "__main__"]
    found = "sys.modules.keys() >= {'tertium.engines.loading', 'tertium.models.light'}"
    script = f"import sys, {', '.join(modules)}; print({found})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"
