"""Where a server's time goes at 16 texts a request and 32 clients: padding, calls, HTTP, wrk.

python benchmarks/serve_profile.py              # an idle machine, about three minutes
"""

import argparse
import contextlib
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from common import publish
from encode import real_texts
from serve_common import bodies, ours, wrk

import tertium
from tertium.models import Encoder
from tertium.models.tokens import TokenizationStats, lean_batches, token_budget_batches
from tertium.serve.batching import BatchQueue, QueuedRequest
from tertium.serve.host import TextReader
from tertium.serve.settings import Settings

TEXTS, CLIENTS = 16, 32
SHAPES = ((1, 8), (1, 16), (2, 16), (4, 16), (8, 16), (16, 16), (32, 16), (64, 16))
Cut = Callable[..., list[np.ndarray]]


def main() -> None:
    """Measure every part of the way, from the model outwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--engines", default="torch,onnx-int8")
    chosen = parser.parse_args()
    engines = chosen.engines.split(",")
    texts = [text for text in real_texts()["STS-B"] if "\n" not in text]
    columns = [column(engine, texts, chosen.seconds) for engine in engines]
    rows = [[name, *(found[name] for found in columns)] for name in columns[0]]
    title = f"Serving {TEXTS} texts a request to {CLIENTS} clients: where the time goes"
    publish("serve_profile", title, ["", *engines], rows)


def column(engine: str, texts: Sequence[str], seconds: float) -> dict[str, str]:
    """All figures of an engine."""
    model = tertium.load(engine=engine)
    assert isinstance(model, Encoder)
    lengths = np.array([len(ids) for ids in model.tokenize(texts, truncation=TokenizationStats())])
    budget, gathered = model.token_budget or 1024, Settings().batch_tokens
    together = max(gathered // round(lengths.mean()), 1)
    whole, alone = [], []
    model.encode(texts[:200], progress=False)
    for _ in range(3):
        whole.append(rate(lambda: model.encode(texts, progress=False), len(texts)))
        alone.append(rate(lambda: by_queue(model, texts, gathered), len(texts)))
    flags = ("--model", "default", "--engine", engine, "--queue-requests", "1024")
    with (
        ours(*flags, threads=os.cpu_count() or 1) as (url, server),
        bodies(texts, TEXTS) as file,
    ):
        wrk(url, file, clients=8, seconds=2)
        before, began = spent(server), time.perf_counter()
        load = wrk(url, file, clients=CLIENTS, seconds=seconds)
        lasted = time.perf_counter() - began
        shares = [100 * (b - a) / lasted for a, b in zip(before, spent(server), strict=True)]
    bare = statistics.median(whole)
    return {
        "tokens computed for each token of a request, batches as large as possible": (
            f"{padding(token_budget_batches, lengths, TEXTS, budget):.2f}"
        ),
        "the same, batches as they are cut now": (
            f"{padding(lean_batches, lengths, TEXTS, budget):.2f}"
        ),
        f"of the {together} texts that are gathered": (
            f"{padding(lean_batches, lengths, together, budget):.2f}"
        ),
        "of all texts": f"{padding(lean_batches, lengths, len(texts), budget):.2f}",
        "tokens that one more call is worth": f"{call(model):.0f}",
        "`Encoder.encode` of all texts, texts/s": f"{bare:.0f}",
        "the server's batching without HTTP": f"{100 * statistics.median(alone) / bare:.0f} %",
        "with HTTP": f"{100 * TEXTS * load.rate / bare:.0f} %",
        "processor time of the worker": f"{shares[0]:.0f} %",
        "of the process that answers": f"{shares[1]:.0f} %",
        "of wrk": f"{shares[2]:.0f} %",
    }


def padding(cut: Cut, lengths: np.ndarray, group: int, budget: int) -> float:
    """Tokens with padding for each token, if so many texts are cut into batches at a time."""
    parts = [lengths[start : start + group] for start in range(0, len(lengths), group)]
    padded = sum(len(b) * part[b].max() for part in parts for b in cut(part, budget=budget))
    return float(padded / lengths.sum())


def call(model: Encoder) -> float:
    """What a call costs beside its tokens, in tokens: a line through times of several shapes."""
    generator = np.random.default_rng(0)
    tokens, times = [], []
    for count, width in SHAPES:
        ids = generator.integers(2000, 9000, (count, width)).tolist()
        model.encode_ids(ids, token_budget=10**6)
        took = [
            rate(lambda ids=ids: model.encode_ids(ids, token_budget=10**6), 1) for _ in range(7)
        ]
        tokens.append(count * width)
        times.append(1 / statistics.median(took))
    slope, start = np.polyfit(tokens, times, 1, w=1 / np.array(times))
    return float(start / slope)


def by_queue(model: Encoder, texts: Sequence[str], gathered: int) -> None:
    """As a worker does it for so many clients, each of which asks again when it is answered."""
    queue = BatchQueue(TextReader(model), budget=gathered, most=10**9)
    waiting = [
        QueuedRequest({"id": start, "kind": "embed"}, texts[start : start + TEXTS])
        for start in range(0, len(texts), TEXTS)
    ]
    free = CLIENTS
    while waiting or queue.busy:
        for task in waiting[:free]:
            queue.admit(task)
        del waiting[:free]
        parts = queue.gather(_fail)
        begin = time.perf_counter()
        queue.run(parts)
        tokens = sum(item.tokens for part in parts for item in part.items)
        queue.ran(tokens, seconds=time.perf_counter() - begin)
        free = sum(part.task.finished for part in parts)


def rate(work: Callable[[], object], count: int) -> float:
    """How many of ``count`` things a second."""
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


def spent(server: int) -> tuple[float, float, float]:
    """Seconds of processor time of the workers, the server and what this process has waited for."""
    tick = os.sysconf("SC_CLK_TCK")
    times: dict[bool, float] = {False: 0.0, True: 0.0}
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            found[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    for process, fields in found.items():
        parent = int(fields[1])
        above = int(found[parent][1]) if parent in found else 0  # workers are forked from a child
        if server in (process, parent, above):
            times[process == server] += (int(fields[11]) + int(fields[12])) / tick
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times[False], times[True], children.ru_utime + children.ru_stime


def _fail(task: QueuedRequest, error: Exception) -> None:
    raise error


if __name__ == "__main__":
    main()
