"""The most expensive requests that are legal, next to small ones, on a real model."""

import json
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tertium.serve.protocol import LOADER
from tests.attack.client import ask, embed
from tests.serve.process import Site, started

LONG = "The cat sleeps on the warm stone and dreams of birds. "
LEGAL = {
    "/v1/embeddings": {"input": [LONG * 70 for _ in range(512)]},  # two megabytes
    "/v1/similarity": {"pairs": [[f"{n} {LONG}", f"{LONG} {n}"] for n in range(512)]},
    "/v1/explain": {"a": LONG * 5, "b": LONG[:40] * 3},
}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with started(loader=LOADER, model="sts", deadline=600) as found:
        yield found


@pytest.mark.parametrize("path", LEGAL)
def test_small_requests_do_not_wait_for_large_ones(site: Site, path: str) -> None:
    """Not judged by the clock: they are compared with the large requests beside them."""
    body = json.dumps(LEGAL[path]).encode()
    stop = threading.Event()

    def large() -> list[float]:
        spent = []
        while not stop.is_set():
            start = time.monotonic()
            answer = ask(site, path, body)
            assert answer.status == 200, answer
            spent.append(time.monotonic() - start)
        return spent

    with ThreadPoolExecutor(4) as pool:
        beside = [pool.submit(large) for _ in range(4)]
        small = []
        try:
            while len(small) < 20:
                start = time.monotonic()
                assert embed(site, f"a cat {len(small)}").status == 200
                small.append(time.monotonic() - start)
        finally:
            stop.set()
        spent = [each for one in beside for each in one.result()]
    assert statistics.median(small) < statistics.median(spent) / 2
