"""Search and cleaning: 100,000 real sentences, an index against others, time against n.

python benchmarks/search.py                     # all of it, up to a million vectors: hours
python benchmarks/search.py --parts corpus      # 100,000 sentences, encoded once and kept
python benchmarks/search.py --smoke             # seconds; publishes nothing
"""

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import data_folder, publish, seconds
from search_growth import growth
from search_vectors import K, Published, Table, drawn, timed

from tertium.corpus import Index
from tertium.corpus.duplicates import dedupe_vectors
from tertium.corpus.exact import nearest
from tertium.corpus.hnsw import EXACT_PAIRS, Method
from tertium.corpus.mining import mine_vectors
from tertium.corpus.rows import Rows, unit
from tertium.files import cache_folder

EXPANSION = 128  # of every graph, ours and others'
CONNECTIVITY = 16


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    sentences: int = 100_000
    index: int = 100_000
    queries: int = 1000
    steps: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    width: int = 384


SMOKE = Sizes(sentences=300, index=1200, queries=50, steps=(200, 400, 800), width=32)


def main() -> None:
    """Measure what is asked for; every part keeps a table of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, nothing is kept")
    parser.add_argument("--parts", default="corpus,index,growth", help="with commas")
    parser.add_argument("--largest", type=int, default=1_000_000, help="vectors for growth")
    parser.add_argument("--exact-up-to", type=int, default=EXACT_PAIRS, help="mine, dedupe: exact")
    parser.add_argument("--graph-up-to", type=int, default=1_000_000, help="mine, dedupe: hnsw")
    parser.add_argument("--kinds", default="clustered,random", help="of vectors for growth")
    options = parser.parse_args()
    sizes = SMOKE if options.smoke else Sizes()
    steps = tuple(n for n in sizes.steps if n <= options.largest)
    parts: dict[str, Callable[[], Iterable[Published]]] = {
        "corpus": lambda: [corpus(sizes, smoke=options.smoke)],
        "index": lambda: [index(sizes, smoke=options.smoke)],
        "growth": lambda: growth(
            steps,
            sizes.width,
            options.kinds.split(","),
            up_to={Method.EXACT: options.exact_up_to, Method.HNSW: options.graph_up_to},
            draw=not options.smoke,
        ),
    }
    for name in options.parts.split(","):
        for title, header, rows in parts[name]():
            if options.smoke:
                print(title, header, *rows, sep="\n")
            else:
                publish(f"search_{name}", title, header, rows)


# 100,000 real sentences


def corpus(sizes: Sizes, *, smoke: bool) -> Published:
    """Dedupe, mine and cluster real sentences on stored vectors."""
    vectors = _sentence_vectors(sizes.sentences, smoke=smoke)
    rows = Rows([vectors], normalised=True)
    table = []
    dropped: dict[Method, np.ndarray] = {}
    for method in (Method.EXACT, Method.HNSW):
        took, (partners, _) = timed(
            lambda method=method: dedupe_vectors(rows, threshold=0.9, method=method)
        )
        dropped[method] = partners >= 0
        alike = float((dropped[method] == dropped[Method.EXACT]).mean())
        note = f"{dropped[method].sum():,} dropped, {100 * alike:.2f} % decided as exact does"
        table.append([f"dedupe 0.9, {method}", f"{took:.1f} s", note])
    found: dict[Method, set[tuple[int, int]]] = {}
    for method in (Method.EXACT, Method.HNSW):
        took, (first, second, _) = timed(
            lambda method=method: mine_vectors(rows, threshold=0.8, top_k=K, method=method)
        )
        found[method] = set(zip(first.tolist(), second.tolist(), strict=True))
        share = len(found[method] & found[Method.EXACT]) / max(len(found[Method.EXACT]), 1)
        table.append(
            [
                f"mine 0.8, {method}",
                f"{took:.1f} s",
                f"{len(first):,} pairs, {100 * share:.2f} % of all",
            ]
        )
    took, pairs = timed(lambda: _their_mining(vectors))
    table.append(["mine 0.8, sentence-transformers", f"{took:.1f} s", f"{pairs:,} pairs"])
    title = f"Cleaning {len(vectors):,} sentences on stored vectors of width {vectors.shape[1]}"
    return title, ["task", "time", "found"], table


def _sentence_vectors(count: int, *, smoke: bool) -> np.ndarray:
    """Vectors of real sentences, encoded once and kept in the cache."""
    if smoke:
        return drawn(count, 32, kind="clustered")
    import tertium
    from tertium.models.vectors import map_vectors

    texts = list(dict.fromkeys(_sentences()))[:count]
    path = cache_folder() / "benchmarks" / f"search-{len(texts)}.npy"
    return unit(map_vectors(tertium.load(engine="auto"), texts, path))


def _sentences() -> Iterator[str]:
    from tertium.data import benchmarks
    from tertium.data.tables import read_records

    folder = data_folder()
    yield from (row.sentence for row in benchmarks.load("wiki", split="train", folder=folder).rows)
    for record in read_records(folder / "nli_pairs.tsv.gz"):
        yield record.values["sentence1"]
        yield record.values["sentence2"]


def _their_mining(vectors: np.ndarray) -> int:
    from sentence_transformers.util import paraphrase_mining_embeddings

    found = paraphrase_mining_embeddings(
        vectors, query_chunk_size=1024, corpus_chunk_size=8192, top_k=K, max_pairs=len(vectors) * K
    )
    return sum(score >= 0.8 for score, _, _ in found)


# An index against others


def index(sizes: Sizes, *, smoke: bool) -> Published:
    """Build time, latency and recall of ours, of plain numpy and of faiss."""
    vectors = drawn(sizes.index + sizes.queries, sizes.width, kind="clustered")
    queries, stored = vectors[: sizes.queries], np.ascontiguousarray(vectors[sizes.queries :])
    truth = nearest(Rows([stored], normalised=True), queries, K).positions
    table = [_row("numpy, exact", 0.0, lambda q: _numpy_search(stored, q), queries, truth)]
    with tempfile.TemporaryDirectory() as name:
        for dtype in ("float32", "int8"):
            table.append(_ours(Path(name) / dtype, dtype, stored, queries, truth, smoke=smoke))
    if importlib.util.find_spec("faiss") is None:
        table.append(["faiss", "", "", "", "", "not installed: pip install faiss-cpu"])
    else:
        table += _faiss(stored, queries, truth)
    title = f"An index of {len(stored):,} clustered vectors of width {sizes.width}, k = {K}"
    return (
        title,
        ["index", "build", "one query", "queries/s in one batch", f"recall@{K}", ""],
        table,
    )


def _ours(
    folder: Path,
    dtype: str,
    stored: np.ndarray,
    queries: np.ndarray,
    truth: np.ndarray,
    *,
    smoke: bool,
) -> list[str]:
    if smoke:  # or no graph would be built
        from tertium.corpus import write

        write.EXACT_SEARCH = 1000
    texts = [str(row) for row in range(len(stored))]
    took, built = timed(
        lambda: Index.build(folder, texts, Table(stored), vectors=stored, dtype=dtype)
    )
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    snapshot = built._snapshot

    def search(some: np.ndarray) -> np.ndarray:
        return snapshot.nearest_rows(some, K, None).positions

    return _row(f"tertium, {dtype}", took, search, queries, truth, note=f"{size / 2**20:,.0f} MB")


def _faiss(stored: np.ndarray, queries: np.ndarray, truth: np.ndarray) -> list[list[str]]:
    import faiss

    flat = faiss.IndexFlatIP(stored.shape[1])
    graph = faiss.IndexHNSWFlat(stored.shape[1], CONNECTIVITY, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = graph.hnsw.efSearch = EXPANSION
    rows = []
    for name, made in {"faiss, IndexFlatIP": flat, "faiss, IndexHNSWFlat": graph}.items():
        took, _ = timed(lambda made=made: made.add(stored))
        rows.append(_row(name, took, lambda q, made=made: made.search(q, K)[1], queries, truth))
    return rows


def _numpy_search(stored: np.ndarray, queries: np.ndarray) -> np.ndarray:
    found = []
    for start in range(0, len(queries), 64):
        scores = queries[start : start + 64] @ stored.T
        best = np.argpartition(-scores, K - 1, axis=1)[:, :K]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        found.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(found)


def _row(
    name: str,
    built: float,
    search: Callable[[np.ndarray], np.ndarray],
    queries: np.ndarray,
    truth: np.ndarray,
    *,
    note: str = "",
) -> list[str]:
    found = search(queries)
    each = [
        seconds(lambda at=at: search(queries[at : at + 1]), repeats=1) for at in range(len(queries))
    ]
    batch = seconds(lambda: search(queries))
    build = f"{built:.1f} s" if built else "none"
    one = f"{1000 * float(np.median(each)):.2f} ms"
    return [name, build, one, f"{len(queries) / batch:,.0f}", f"{_recall(found, truth):.4f}", note]


def _recall(found: np.ndarray, truth: np.ndarray) -> float:
    pairs = zip(found.tolist(), truth.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


if __name__ == "__main__":
    main()
