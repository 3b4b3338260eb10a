"""Time against the number of vectors; a part of benchmarks/search.py."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from common import RESULTS, seconds
from search_vectors import K, Published, Table, drawn, timed

from tertium.corpus import Index
from tertium.corpus.duplicates import dedupe_vectors
from tertium.corpus.hnsw import Method
from tertium.corpus.mining import mine_vectors
from tertium.corpus.rows import Rows
from tertium.progress import track

Times = dict[tuple[str, str], list[tuple[int, float]]]  # by task and kind of vectors


def growth(
    steps: Sequence[int],
    width: int,
    kinds: Sequence[str],
    *,
    up_to: Mapping[Method, int],
    draw: bool,
) -> Iterator[Published]:
    """Seconds of mining, cleaning, building and searching for more and more vectors.

    Gives what is known after every size, and at the largest after every task: they take long.
    """
    times: Times = {}
    recalls: dict[tuple[str, int], float] = {}
    for kind in kinds:
        for n in track(steps, label=kind, unit="size"):
            vectors = drawn(n, width, kind=kind)
            how, built, one, recalls[kind, n] = _index_times(vectors)
            times.setdefault((f"index build, {how}", kind), []).append((n, built))
            times.setdefault((f"search, {how}, one query", kind), []).append((n, one))
            rows = Rows([vectors], normalised=True)
            for method in (method for method, most in up_to.items() if n <= most):
                for task, work in {
                    "mine": lambda r=rows, m=method: mine_vectors(
                        r, threshold=0.8, top_k=K, method=m
                    ),
                    "dedupe": lambda r=rows, m=method: dedupe_vectors(r, threshold=0.9, method=m),
                }.items():
                    if n == max(steps):
                        yield _published(times, recalls, steps, width, draw=draw)
                    took, _ = timed(work)
                    times.setdefault((f"{task}, {method}", kind), []).append((n, took))
            yield _published(times, recalls, steps, width, draw=draw)


def _published(
    times: Times,
    recalls: dict[tuple[str, int], float],
    steps: Sequence[int],
    width: int,
    *,
    draw: bool,
) -> Published:
    if draw:
        _plot(times, RESULTS)
    table = [_growth_row(task, kind, points, steps) for (task, kind), points in times.items()]
    for kind in dict.fromkeys(kind for kind, _ in recalls):
        shown = [f"{recalls[kind, n]:.3f}" if (kind, n) in recalls else "" for n in steps]
        table.append([f"recall@{K}", kind, *shown, ""])
    title = f"Time against the number of vectors of width {width}; t = c n^exponent"
    return title, ["task", "vectors", *(f"{n:,}" for n in steps), "exponent"], table


def _index_times(vectors: np.ndarray) -> tuple[Method, float, float, float]:
    """How an index works, seconds to build it of stored vectors and to answer, its recall."""
    folder = Path(tempfile.mkdtemp())
    try:
        texts = (str(row) for row in range(len(vectors)))
        built, made = timed(
            lambda: Index.build(folder / "index", texts, Table(vectors), vectors=vectors)
        )
        queries = drawn(50, vectors.shape[1], kind="random", seed=1)
        each = [
            seconds(lambda at=at: made.search_vectors(queries[at : at + 1], top_k=K), repeats=1)
            for at in range(len(queries))
        ]
        recall = made.manifest.recall
        how = Method.EXACT if made.manifest.graph is None else Method.HNSW
        return how, built, float(np.median(each)), 1.0 if recall is None else recall.value
    finally:
        shutil.rmtree(folder)


def _growth_row(
    task: str, kind: str, points: list[tuple[int, float]], steps: Sequence[int]
) -> list[str]:
    found = dict(points)
    shown = [_shown(found[n]) if n in found else "" for n in steps]
    return [task, kind, *shown, f"{exponent(points):.2f}" if len(points) > 1 else ""]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Slope of the line through the logarithms.

    >>> round(exponent([(10, 1.0), (100, 100.0)]), 2)
    2.0
    """
    sizes, times = np.log(np.array(points, float)).T
    return float(np.polyfit(sizes, times, 1)[0])


def _shown(took: float) -> str:
    return f"{took:.1f} s" if took >= 0.1 else f"{1000 * took:.2f} ms"


def _plot(times: Times, folder: Path) -> None:
    from tertium.drawing import blank_figure

    kinds = sorted({kind for _, kind in times})
    figure = blank_figure(7.5 * len(kinds), 4)
    for axes, kind in zip(np.atleast_1d(figure.subplots(1, len(kinds))), kinds, strict=True):
        for (task, drawn_as), points in times.items():
            if drawn_as == kind:
                label = f"{task}: n^{exponent(points):.2f}" if len(points) > 1 else task
                axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=label)
        axes.set(title=f"{kind} vectors", xlabel="n", ylabel="seconds")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.savefig(folder / "search_growth.png", dpi=150)
