"""What a server needs and what the most expensive legal requests cost: start, memory, waiting.

python benchmarks/serve_sizing.py                      # about three minutes
python benchmarks/serve_sizing.py --workers 1 --model turbo
"""

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import publish
from serve_common import family, memory, ours, outcome, workers

WORDS = ("the", "cat", "sleeps", "on", "a", "warm", "stone", "while", "birds", "sing")


@dataclass(frozen=True)
class Request:
    """What one client asks."""

    name: str
    path: str
    body: dict[str, Any]


def text(mark: str, words: int) -> str:
    """A text of so many words that no other request has, since equal texts are run once."""
    return " ".join([mark, *(WORDS[n % len(WORDS)] for n in range(words))])


def small(mark: str) -> Request:
    """One short sentence."""
    return Request("1 text", "/v1/embeddings", {"input": text(mark, 8)})


def embeddings(count: int) -> Callable[[str], Request]:
    """So many texts, each longer than the model reads: the largest body and the most tokens."""

    def asked(mark: str) -> Request:
        texts = [text(f"{mark} {n}", 800) for n in range(count)]
        return Request(f"{count} long texts", "/v1/embeddings", {"input": texts})

    return asked


def similarity(count: int) -> Callable[[str], Request]:
    """So many pairs of texts of 50 words."""

    def asked(mark: str) -> Request:
        pairs = [[text(f"{mark} {n}", 50), text(f"{n} {mark}", 50)] for n in range(count)]
        return Request(f"{count} pairs", "/v1/similarity", {"pairs": pairs})

    return asked


def conditional(count: int) -> Callable[[str], Request]:
    """So many pairs of texts of 30 words, in a respect."""

    def asked(mark: str) -> Request:
        one, two = (text(mark, 30), text(f"{mark} again", 30))
        triples = [[f"{n} {one}", f"{n} {two}", "the animals"] for n in range(count)]
        return Request(f"{count} triples", "/v1/conditional", {"triples": triples})

    return asked


def explain(mark: str) -> Request:
    """Two texts of as many words as may be explained."""
    return Request("explanation", "/v1/explain", {"a": text(mark, 61), "b": text(mark, 60)})


LEGAL = (embeddings(512), similarity(512), conditional(512), explain)


def percentile(seconds: Sequence[float], which: float) -> float:
    """In milliseconds."""
    return 1000 * float(np.percentile(seconds, which)) if seconds else float("nan")


def main() -> None:
    """Start a server, look at its size, and ask for the most that it allows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--model", default="sts")
    parser.add_argument("--engine", default="torch")
    chosen = parser.parse_args()
    threads = max((os.cpu_count() or 1) // chosen.workers, 1)
    flags = ("--model", chosen.model, "--engine", chosen.engine, "--workers", str(chosen.workers))
    start = time.monotonic()
    with ours(*flags, threads=threads) as (url, process):
        ready = time.monotonic() - start
        for number in range(20):
            outcome(url, small("").path, small(f"warm {number}").body)
        fresh = memory_of(process)
        rows = [measure(url, None), *(measure(url, kind) for kind in LEGAL)]
        used = memory_of(process)
    title = (
        f"{chosen.model}, {chosen.engine}, {chosen.workers} workers of {threads} threads: ready "
        f"after {ready:.1f} s; a worker holds {fresh[0]:.0f} MB at first and {used[0]:.0f} MB "
        f"after the requests below, all processes {fresh[1]:.0f} and {used[1]:.0f} MB"
    )
    header = ["beside", "bytes", "status", "seconds", "small p50, ms", "small p99, ms"]
    publish("serve_sizing", title, header, rows)


def memory_of(process: int) -> tuple[float, float]:
    """Megabytes of the largest worker, and of all processes together."""
    return max(map(memory, workers(process))), sum(map(memory, family(process)))


def measure(url: str, kind: Callable[[str], Request] | None) -> list[str]:
    """How long an expensive request takes, and small ones of the same address beside it."""
    stop = threading.Event()
    waits: list[float] = []

    def ask() -> None:
        while not stop.is_set():
            request = small(f"{time.monotonic()}")
            status, seconds = outcome(url, request.path, request.body)
            assert status == "200", status
            waits.append(seconds)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        if kind is None:
            time.sleep(5)
            told = ["nothing", "", "", ""]
        else:
            request = kind("large")
            status, seconds = outcome(url, request.path, request.body)
            size = len(str(request.body))
            told = [request.name, f"{size:,}", status, f"{seconds:.1f}"]
        stop.set()
        asking.result()
    return [*told, f"{percentile(waits, 50):.0f}", f"{percentile(waits, 99):.0f}"]


if __name__ == "__main__":
    main()
