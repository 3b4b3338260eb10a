"""Requests a second of ``tertium serve`` against FastAPI with ``SentenceTransformer.encode``.

python benchmarks/serve.py                                    # an idle machine, about 20 minutes
python benchmarks/serve.py --seconds 1 --clients 1,8          # to see that it runs
python benchmarks/serve.py --before CHECKOUT                  # and the server of an older one

wrk asks from the same machine and takes its share of the processors on both sides alike. "Bare
engine" is ``Encoder.encode`` on the same texts in a process of its own, with nothing beside it.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import publish
from encode import real_texts
from serve_common import Load, ask, baseline, bodies, memory, ours, with_threads, workers, wrk

import tertium

Loads = dict[tuple[int, int], Load]  # by texts a request and number of clients
BARE = """
import sys, time, tertium
texts = sys.stdin.read().splitlines()
model = tertium.load(engine=sys.argv[1])
model.encode(texts[:200], progress=False)
best = 1e9
for _ in range(3):
    start = time.perf_counter()
    model.encode(texts, progress=False)
    best = min(best, time.perf_counter() - start)
print(len(texts) / best)
"""


def main() -> None:
    """Measure all servers at all loads, in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", default="1,8,32,128")
    parser.add_argument("--sizes", default="1,16")
    parser.add_argument("--engines", default="onnx,onnx-int8")
    parser.add_argument("--before", type=Path, help="an older checkout, whose server is measured")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    threads = chosen.threads
    clients = [int(each) for each in chosen.clients.split(",")]
    sizes = [int(each) for each in chosen.sizes.split(",")]
    engines = chosen.engines.split(",")
    texts = [text for text in real_texts()["STS-B"] if "\n" not in text]
    rows, costs = [], []
    with baseline(tertium.load().source, threads=threads) as plain:
        stock = measured(plain, texts, clients, sizes, chosen.seconds)
        expected = ask(plain, texts[0])
    rows += shown("FastAPI + sentence-transformers", stock, stock, None)
    for engine in engines:
        before = bare_engine(engine, texts, threads=threads)
        flags = ("--model", "default", "--engine", engine, "--queue-requests", "1024")
        sources = {f"tertium serve, {engine}": None}
        if chosen.before is not None:
            sources[f"the server before, {engine}"] = chosen.before
        found = {}
        for name, source in sources.items():
            start = time.monotonic()
            with ours(*flags, threads=threads, source=source) as (url, process):
                likeness = float(np.dot(expected, ask(url, texts[0])))
                ready = time.monotonic() - start
                assert likeness > (0.9999 if engine == "torch" else 0.95), likeness
                found[name] = measured(url, texts, clients, sizes, chosen.seconds)
                used = max(map(memory, workers(process)))
            costs.append([name, f"{ready:.1f} s", f"{used:.0f} MB"])
        after = bare_engine(engine, texts, threads=threads)
        bare = (before + after) / 2  # the machine does not keep its pace
        for name, loads in found.items():
            rows += shown(name, loads, stock, bare)
    header = ["server", "texts a request", "clients", "requests/s", "ratio", "of bare engine"]
    header += ["p50 ms", "p95 ms", "p99 ms", "refused", "broken"]
    title = (
        f"Serving all-MiniLM-L6-v2, STS-B sentences, {chosen.seconds:g} s a row, {threads} threads"
    )
    publish("serve", title, header, rows)
    header = ["server", "start to first answer", "memory of its worker after the load"]
    publish("serve_start", "What a server costs, in the same run", header, costs)


def bare_engine(engine: str, texts: Sequence[str], *, threads: int) -> float:
    """Texts a second in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", BARE, engine],
        input="\n".join(texts),
        capture_output=True,
        text=True,
        check=True,
        env=with_threads(threads),
    )
    return float(ran.stdout)


def measured(
    url: str, texts: Sequence[str], clients: Sequence[int], sizes: Sequence[int], seconds: float
) -> Loads:
    """Loads by texts a request and number of clients."""
    found = {}
    for size in sizes:
        with bodies(texts, size) as file:
            wrk(url, file, clients=8, seconds=max(seconds / 5, 1))
            for count in clients:
                found[size, count] = wrk(url, file, clients=count, seconds=seconds, seed=count)
    return found


def shown(name: str, found: Loads, stock: Loads, bare: float | None) -> list[list[str]]:
    """Rows of the table."""
    return [
        [
            name,
            str(size),
            str(count),
            f"{load.rate:.0f}",
            f"{load.rate / stock[size, count].rate:.2f}"
            if stock[size, count].rate
            else "no answer",
            "" if bare is None else f"{100 * load.rate * size / bare:.0f} %",
            f"{load.p50:.0f}",
            f"{load.p95:.0f}",
            f"{load.p99:.0f}",
            str(load.status),
            str(load.broken),
        ]
        for (size, count), load in found.items()
    ]


if __name__ == "__main__":
    main()
