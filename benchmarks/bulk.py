"""Bulk jobs: rate against encoding in memory, memory against rows, time against rows.

python benchmarks/bulk.py --engine auto         # 100,000 sentences, a million rows: 20 minutes
python benchmarks/bulk.py                       # by torch: longer
python benchmarks/bulk.py --smoke               # seconds; publishes nothing
"""

import argparse
import itertools
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, data_folder, peak_memory, publish
from search_growth import exponent

SIZES = {
    "sentences": 100_000,
    "steps": (1000, 3000, 10_000, 30_000),
    "rows": (10_000, 100_000, 10**6),
}
SMOKE = {"sentences": 256, "steps": (32, 64, 128), "rows": (2_000, 20_000)}
WIDTH = 384
ROUNDS = 2  # of half the sentences each


class Stub:
    """An encoder that costs nothing, so that only the machinery is left."""

    name = "stub"
    dimension = WIDTH
    scale = (-1.0, 1.0)

    def __init__(self) -> None:
        self._table = np.random.default_rng(0).standard_normal((1024, WIDTH), np.float32)

    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        """Any vectors: a row of a table by the length of the text."""
        return self._table[[len(text) % 1024 for text in texts]]


def load_stub(name: str, **options: Any) -> Stub:
    """What a worker calls instead of ``tertium.load``."""
    return Stub()


def main() -> None:
    """Measure all three and keep the table, and the figures that the scaling plan needs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, nothing is kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="worker processes")
    parser.add_argument("--engine", default="torch", help="of both sides")
    options = parser.parse_args()
    sizes: dict[str, Any] = SMOKE if options.smoke else SIZES
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        rate_rows, measured = rates(root, sizes["sentences"], options)
        whole = (sizes["sentences"], measured.pop("memory_seconds"))
        encoded = growth(sizes["steps"], whole, options)
        rows = [*rate_rows, *encoded, *machinery(root, sizes["rows"])]
    header = ["what", "rows", "seconds", "rows/s", "peak memory"]
    if options.smoke:
        print(header, *rows, measured, sep="\n")
        return
    ratio = measured["ratio_to_memory"]
    title = f"Bulk jobs, {options.workers} workers, {options.engine}: "
    title += f"{100 * ratio:.1f} % of the rate in memory"
    publish("bulk", title, header, rows)
    (RESULTS / "bulk.json").write_text(json.dumps(measured, indent=2) + "\n")


def rates(
    root: Path, count: int, options: argparse.Namespace
) -> tuple[list[list[str]], dict[str, float]]:
    """The same sentences through ``Encoder.encode`` in memory and through ``tertium encode``."""
    halves = np.array_split(np.array(sentences(count), object), ROUNDS)
    memory, peak, spent, checked, size = 0.0, 0.0, 0.0, 0.0, 0
    for number, half in enumerate(halves):  # in turn, since the machine does not keep its pace
        file = root / f"wiki-{number}.txt"
        file.write_text("".join(f"{text}\n" for text in half), encoding="utf-8")
        found = json.loads(child("memory", file, options.engine))
        memory, peak = memory + found["seconds"], max(peak, found["peak"])
        command = [sys.executable, "-m", "tertium", "encode", str(file), "-o", f"{root}/vectors/"]
        command += ["--workers", str(options.workers), "--engine", options.engine]
        spent += lasted(command)
        checked += lasted(command)  # only looks at what is there
        size += sum(path.stat().st_size for path in (root / "vectors").glob("part-*"))
        shutil.rmtree(root / "vectors")
    rows = [
        row("Encoder.encode in memory", count, memory, peak),
        row("tertium encode to shards, start included", count, spent),
        row("the same command again, nothing to do", count, checked),
    ]
    measured = {
        "rate_per_worker": count / spent / options.workers,
        "bytes_per_row": size / count,
        "ratio_to_memory": memory / spent,
        "memory_seconds": memory,
    }
    return rows, measured


def lasted(command: Sequence[str]) -> float:
    """Seconds of a command, its start included."""
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begin


def growth(
    steps: Sequence[int], whole: tuple[int, float], options: argparse.Namespace
) -> list[list[str]]:
    """Time of ``Encoder.encode`` against the number of sentences; the exponent is 1 if linear."""
    import tertium

    model = tertium.load(engine=options.engine)
    texts = sentences(max(steps))
    model.encode(texts[: min(steps)])
    times: dict[int, float] = dict.fromkeys(steps, math.inf)
    for count in (*steps, *reversed(steps)):  # the machine does not keep its pace
        begin = time.perf_counter()
        model.encode(texts[:count], progress=False)
        times[count] = min(times[count], time.perf_counter() - begin)
    points = [*times.items(), whole]
    slope = exponent(points)
    if not options.smoke:
        _plot(points, slope)
    found = [row("Encoder.encode", count, spent) for count, spent in times.items()]
    return [*found, [f"exponent of time against rows: {slope:.2f}", "", "", "", ""]]


def _plot(points: list[tuple[int, float]], slope: float) -> None:
    from tertium.drawing import blank_figure

    figure = blank_figure(5, 4)
    axes = figure.subplots()
    axes.loglog(*zip(*points, strict=True), marker="o", label=f"encode: n^{slope:.2f}")
    axes.set(xlabel="sentences", ylabel="seconds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS / "bulk_growth.png", dpi=150)


def machinery(root: Path, counts: Sequence[int]) -> list[list[str]]:
    """Everything but the model: reading, handing over, writing; memory must not grow."""
    found = []
    for count in counts:
        file = root / "stub.txt"
        with file.open("w") as stream:
            stream.writelines(f"sentence number {at} about the weather\n" for at in range(count))
        ran = json.loads(child("stub", file))
        found.append(row("stub: the process that reads", count, ran["seconds"], ran["peak"]))
        found.append(row("stub: the largest worker", count, ran["seconds"], ran["worker"]))
    return found


def sentences(count: int) -> list[str]:
    """Wikipedia sentences, in another order each time they run out; all of a window differ."""
    from tertium.data import benchmarks

    rows = benchmarks.load("wiki", split="train", folder=data_folder()).rows
    texts = sorted({row.sentence for row in rows})
    generator = np.random.default_rng(0)
    rounds = math.ceil(count / len(texts))
    order: Iterable[str] = itertools.chain.from_iterable(
        generator.permutation(texts).tolist() for _ in range(rounds)
    )
    return list(itertools.islice(order, count))


def row(what: str, count: int, seconds: float, peak: float | None = None) -> list[str]:
    """One line of the table."""
    memory = "" if peak is None else f"{peak:.0f} MB"
    return [what, f"{count:,}", f"{seconds:.1f}", f"{count / seconds:,.0f}", memory]


def child(task: str, file: Path, *more: str) -> str:
    """Run a part in a process of its own, or an earlier peak of memory would hide its own."""
    found = subprocess.check_output([sys.executable, __file__, "--run", task, str(file), *more])
    return found.decode().splitlines()[-1]


def run_memory(file: Path, engine: str) -> None:
    """Encode a file in memory, with the threads that the engine chooses."""
    import tertium

    texts = file.read_text(encoding="utf-8").splitlines()
    model = tertium.load(engine=engine)
    model.encode(texts[:64])
    begin = time.perf_counter()
    model.encode(texts, progress=False)
    spent = time.perf_counter() - begin
    print(json.dumps({"seconds": spent, "peak": peak_memory()}))


def run_stub(file: Path) -> None:
    """A job on the stub, with two workers."""
    from tertium.data.shards import Content
    from tertium.jobs.request import Execution, Request
    from tertium.jobs.run import run
    from tertium.jobs.source import Source

    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        source = Source(file, Content.TEXTS)
        request = Request(source, Path(folder) / "out", "default", loader="bulk:load_stub")
        begin = time.perf_counter()
        run(request, Execution(workers=2), progress=False)
        spent = time.perf_counter() - begin
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"seconds": spent, "peak": peak_memory(), "worker": worker}))


if __name__ == "__main__":
    if "--run" in sys.argv:
        {"memory": run_memory, "stub": run_stub}[sys.argv[2]](Path(sys.argv[3]), *sys.argv[4:])
    else:
        main()
