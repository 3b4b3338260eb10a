"""Products in 8 bit written as integer operators or as quantise-dequantise pairs; pinned threads.

python benchmarks/int8_forms.py --prepare      # the graphs, which are kept in the cache
python benchmarks/int8_forms.py

Each way encodes the same texts in turn; figures are medians.
"""

import argparse
import itertools
import os
import statistics
import threading
import time
from pathlib import Path

import numpy as np
from common import publish
from encode import real_texts

from tertium.engines.export import ensure
from tertium.engines.graphs import graphs_of
from tertium.engines.int8 import Form, int8_plans, write_int8
from tertium.engines.loading import load_embedder, opened
from tertium.engines.runtimes import GRAPH, OnnxEngine
from tertium.files import cache_folder
from tertium.hardware import default_threads
from tertium.types import EngineName

FORMS: dict[Form, str] = {"integer": "integer operators", "pairs": "QDQ pairs"}


class Pinned(OnnxEngine):
    """Every thread that runs a batch stays on a core of its own."""

    def __init__(self, path: Path, *, threads: int) -> None:
        super().__init__("pinned", path, threads=threads)
        self._places = itertools.cycle(sorted(os.sched_getaffinity(0)))
        self._local = threading.local()

    def run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:  # type: ignore[override]
        """Pin the thread at its first batch."""
        if not hasattr(self._local, "place"):
            self._local.place = next(self._places)
            os.sched_setaffinity(0, {self._local.place})
        return super().run(inputs)


def main() -> None:
    """Make both graphs once, and measure them in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", action="store_true", help="only make the graphs")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folders = {form: cache_folder() / "benchmarks" / f"int8-{form}" for form in FORMS}
    if options.prepare or not all((folder / GRAPH).exists() for folder in folders.values()):
        prepare(folders)
    if options.prepare:
        return
    texts = real_texts()["STS-B"][: options.sentences]
    model = load_embedder("default")
    exact = model.encode(texts, normalize=True, progress=False)
    threads = default_threads()
    engines = {FORMS[f]: OnnxEngine(f, p / GRAPH, threads=threads) for f, p in folders.items()}
    engines["integer operators, pinned threads"] = Pinned(
        folders["integer"] / GRAPH, threads=threads
    )
    (part,) = model.parts
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    cosines = {}
    for _ in range(options.rounds + 1):
        for name, engine in engines.items():
            part.engine = engine
            start = time.perf_counter()
            rows = model.encode(texts, normalize=True, progress=False)
            seconds[name].append(time.perf_counter() - start)
            cosines[name] = float((rows * exact).sum(axis=1).mean())
    rows = []
    for name, spent in seconds.items():
        rate = len(texts) / statistics.median(spent[1:])  # the first opens the graph
        rows.append([name, f"{rate:,.0f}", f"{cosines[name]:.5f}"])
    header = ["8 bit", "sentences/s", "mean cosine with float"]
    title = f"Forms of int8, {len(texts):,} STS-B sentences, {threads} threads, medians of "
    publish("int8_forms", f"{title}{options.rounds}", header, rows)


def prepare(folders: dict[Form, Path]) -> None:
    """Write both forms of the same plan."""
    (graph,) = graphs_of(opened("default", by_torch=False))
    plain = ensure(graph, EngineName.ONNX).folder / GRAPH
    plans = int8_plans(plain, graph.calibration(), threads=1)
    for form, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        write_int8(plain, folder / GRAPH, plans, form=form)


if __name__ == "__main__":
    main()
