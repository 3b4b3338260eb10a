"""An index over its life: build, add, delete, query, filtered and hybrid, beside databases.

python benchmarks/index_life.py                       # 10 k, 100 k and 1 M drawn vectors: long
python benchmarks/index_life.py --sizes 10000         # one size
python benchmarks/index_life.py --sentences           # 58,674 real sentences, encoded first
python benchmarks/index_life.py --sizes 1000000 --keep DIR   # twice: once to build, once to ask
python benchmarks/index_life.py --smoke               # seconds; publishes nothing

LanceDB, DuckDB and sqlite-vec are measured where they can be imported.
Filters leave a tenth of the texts. All use one thread and wait for the disk as they do by default.
With --keep the stores stay in a folder; a second run finds them there and only asks them, so that
a build may take its time beside other work.
"""

import argparse
import gzip
import importlib.util
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import data_folder, publish
from search_vectors import K, drawn, timed

from tertium.corpus import Index
from tertium.corpus.exact import nearest
from tertium.corpus.rows import Rows, unit
from tertium.models.base import Embedder

HEADER = ["store", "build", "add 1 %", "delete 1 %", "query", "recall@10", "filtered", "recall@10"]
HEADER += ["hybrid", "MB"]
QUERIES = 200


class Given(Embedder):
    """An encoder whose texts are numbers of rows, perhaps with words behind them."""

    name = "given"
    dimension = 0

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.dimension = vectors, vectors.shape[1]

    def encode(self, texts: Any, **options: Any) -> np.ndarray:
        """Rows by their numbers."""
        return self.vectors[[int(text.split()[0]) for text in texts]]


class Ours:
    """An index of tertium; rows are numbered from 0, and ``part`` of row i is i modulo 10."""

    def __init__(self, folder: Path, vectors: np.ndarray) -> None:
        self.folder, self.model = folder, Given(vectors)

    def build(self, rows: np.ndarray, texts: Sequence[str]) -> None:
        """As a user does who has vectors."""
        ids, columns = _columns(0, len(rows))
        self.index = Index.build(
            self.folder, texts, self.model, ids=ids, columns=columns, vectors=rows, progress=False
        )

    def open(self) -> None:
        """As it was left."""
        self.index = Index.open(self.folder, self.model)

    def add(self, rows: np.ndarray, texts: Sequence[str], start: int) -> None:
        """Likewise."""
        ids, columns = _columns(start, len(rows))
        self.index.add(texts, ids=ids, columns=columns, vectors=rows, progress=False)

    def delete(self, ids: Sequence[int]) -> None:
        """By id."""
        self.index.delete([str(each) for each in ids])

    def query(self, row: np.ndarray, *, part: int | None = None) -> list[int]:
        """With texts and columns."""
        where = None if part is None else f"part = {part}"
        return [
            int(hit.id) for hit in self.index.search_vectors(row[None], top_k=K, where=where)[0]
        ]

    def hybrid(self, row: np.ndarray, text: str) -> list[int]:
        """By words as well."""
        return [
            int(hit.id) for hit in self.index.search_vectors(row[None], top_k=K, words=[text])[0]
        ]


class Lance:
    """LanceDB; of its indexes IVF_HNSW_SQ is nearest to ours, IVF_FLAT is built much faster."""

    kind = "IVF_HNSW_SQ"

    def __init__(self, folder: Path, vectors: np.ndarray) -> None:
        import lancedb

        self.database, self.folder = lancedb.connect(str(folder)), folder

    def _batch(self, rows: np.ndarray, texts: Sequence[str], start: int) -> Any:
        import pyarrow as pa

        ids = np.arange(start, start + len(rows))
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        columns = {"id": ids, "part": ids % 10, "text": list(texts), "vector": vectors}
        return pa.table(columns)

    def build(self, rows: np.ndarray, texts: Sequence[str]) -> None:
        """Write the table, then its index."""
        self.table = self.database.create_table("t", self._batch(rows, texts, 0))
        if len(rows) >= 20_000:
            self.table.create_index(metric="cosine", index_type=self.kind)

    def open(self) -> None:
        """As it was left."""
        self.table = self.database.open_table("t")

    def add(self, rows: np.ndarray, texts: Sequence[str], start: int) -> None:
        """Without bringing the index up to date."""
        self.table.add(self._batch(rows, texts, start))

    def delete(self, ids: Sequence[int]) -> None:
        """By id."""
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")

    def query(self, row: np.ndarray, *, part: int | None = None) -> list[int]:
        """With texts and columns; enough partitions for the recall of the others."""
        found = self.table.search(row).distance_type("cosine").limit(K).nprobes(20).refine_factor(4)
        if part is not None:
            found = found.where(f"part = {part}", prefilter=True)
        return found.to_arrow()["id"].to_pylist()


class SqliteVec:
    """sqlite-vec, which compares with every vector."""

    def __init__(self, folder: Path, vectors: np.ndarray) -> None:
        import sqlite_vec

        folder.mkdir()
        self.folder, self.connection = folder, sqlite3.connect(folder / "vec.sqlite")
        if not hasattr(self.connection, "enable_load_extension"):
            raise ImportError("the sqlite3 of this Python loads no extensions")
        self.connection.enable_load_extension(True)  # noqa: FBT003
        sqlite_vec.load(self.connection)
        width = vectors.shape[1]
        self.connection.execute(
            f"CREATE VIRTUAL TABLE t USING vec0 (id INTEGER PRIMARY KEY, part INTEGER, "
            f"+text TEXT, vector FLOAT[{width}] distance_metric=cosine)"
        )

    def build(self, rows: np.ndarray, texts: Sequence[str]) -> None:
        """In one transaction."""
        self.add(rows, texts, 0)

    def add(self, rows: np.ndarray, texts: Sequence[str], start: int) -> None:
        """In one transaction."""
        with self.connection:
            self.connection.executemany(
                "INSERT INTO t (id, part, text, vector) VALUES (?, ?, ?, ?)",
                (
                    (start + at, (start + at) % 10, text, row.tobytes())
                    for at, (row, text) in enumerate(zip(rows, texts, strict=True))
                ),
            )

    def delete(self, ids: Sequence[int]) -> None:
        """By id."""
        with self.connection:
            self.connection.executemany("DELETE FROM t WHERE id = ?", ((each,) for each in ids))

    def query(self, row: np.ndarray, *, part: int | None = None) -> list[int]:
        """With texts."""
        also = "" if part is None else f" AND part = {part}"
        packed = struct.pack(f"{len(row)}f", *row)
        sql = f"SELECT id, text FROM t WHERE vector MATCH ? AND k = {K}{also}"
        return [number for number, _ in self.connection.execute(sql, (packed,))]


class Duck:
    """DuckDB, which compares with every vector (its graph is an extension to be fetched)."""

    def __init__(self, folder: Path, vectors: np.ndarray) -> None:
        import duckdb

        folder.mkdir(exist_ok=True)
        self.folder, self.width = folder, vectors.shape[1]
        self.connection = duckdb.connect(str(folder / "vectors.duckdb"), config={"threads": 1})
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS t "
            f"(id BIGINT, part BIGINT, text VARCHAR, vector FLOAT[{self.width}])"
        )

    def build(self, rows: np.ndarray, texts: Sequence[str]) -> None:
        """From Arrow."""
        self.add(rows, texts, 0)

    def open(self) -> None:
        """It is."""

    def add(self, rows: np.ndarray, texts: Sequence[str], start: int) -> None:
        """From Arrow."""
        import pyarrow as pa

        ids = np.arange(start, start + len(rows))
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), self.width)
        added = pa.table({"id": ids, "part": ids % 10, "text": list(texts), "vector": vectors})
        self.connection.register("added", added)
        self.connection.execute("INSERT INTO t SELECT * FROM added")
        self.connection.execute("CHECKPOINT")

    def delete(self, ids: Sequence[int]) -> None:
        """By id."""
        self.connection.execute(f"DELETE FROM t WHERE id IN ({', '.join(map(str, ids))})")

    def query(self, row: np.ndarray, *, part: int | None = None) -> list[int]:
        """With texts."""
        only = "" if part is None else f"WHERE part = {part}"
        near = f"array_cosine_distance(vector, ?::FLOAT[{self.width}])"
        sql = f"SELECT id, text FROM t {only} ORDER BY {near} LIMIT {K}"
        return [number for number, _ in self.connection.execute(sql, [row.tolist()]).fetchall()]


STORES: dict[str, tuple[str, type[Any]]] = {
    "tertium": ("tertium", Ours),
    "LanceDB": ("lancedb", Lance),
    "DuckDB": ("duckdb", Duck),
    "sqlite-vec": ("sqlite_vec", SqliteVec),
}


def main() -> None:
    """Measure every store at every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000", help="with commas")
    parser.add_argument("--sentences", action="store_true", help="real sentences instead")
    parser.add_argument("--stores", default=",".join(STORES), help="with commas")
    parser.add_argument("--vectors", type=Path, help="of the sentences, as encode writes them")
    parser.add_argument("--keep", type=Path, help="a folder for the stores, to be asked again")
    parser.add_argument("--smoke", action="store_true", help="tiny, nothing is kept")
    parser.add_argument("--lance-index", default=Lance.kind, help="of LanceDB")
    options = parser.parse_args()
    Lance.kind = options.lance_index
    names = options.stores.split(",")
    if options.sentences:
        texts = sentences()
        order = np.random.default_rng(0).permutation(len(texts))
        vectors = embedded(texts, options.vectors)[order]
        texts = [texts[at] for at in order]
        title = f"An index of {len(texts):,} sentences over its life, width {vectors.shape[1]}"
        rows = _table(names, vectors, texts, options.keep)
        publish("index_life_sentences", title, HEADER, rows)
        return
    sizes = [500] if options.smoke else [int(size) for size in options.sizes.split(",")]
    for size in sizes:
        vectors = drawn(size + QUERIES, 32 if options.smoke else 384, kind="clustered")
        texts = _drawn_texts(len(vectors))
        rows = _table(names, vectors, texts, options.keep)
        if options.smoke:
            print(HEADER, *rows, sep="\n")
        else:
            title = f"An index of {size:,} drawn vectors of width 384 over its life"
            publish(f"index_life_{size}", title, HEADER, rows)


def _table(
    names: Sequence[str], vectors: np.ndarray, texts: Sequence[str], keep: Path | None
) -> list[list[str]]:
    rows = []
    for name in names:
        package, kind = STORES[name]
        if importlib.util.find_spec(package) is None:
            rows.append([name, *[""] * (len(HEADER) - 2), f"not installed: pip install {package}"])
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary if keep is None else keep) / f"{package}-{len(vectors)}"
            there = folder.exists()
            try:
                store = kind(folder, vectors)
            except ImportError as error:
                rows.append([name, *[""] * (len(HEADER) - 2), str(error)])
                continue
            rows.append([name, *_life(store, vectors, texts, there=there)])
    return rows


def _life(store: Any, vectors: np.ndarray, texts: Sequence[str], *, there: bool) -> list[str]:
    queries, stored = vectors[:QUERIES], np.ascontiguousarray(vectors[QUERIES:])
    asked, texts = texts[:QUERIES], [f"{QUERIES + at} {t}" for at, t in enumerate(texts[QUERIES:])]
    first = len(stored) - len(stored) // 100
    gone = np.random.default_rng(1).permutation(len(stored))[: len(stored) // 100]
    changes = ["", "", ""]
    if there:
        store.open()
    else:
        built, _ = timed(lambda: store.build(stored[:first], texts[:first]))
        added, _ = timed(lambda: store.add(stored[first:], texts[first:], first))
        deleted, _ = timed(lambda: store.delete(gone.tolist()))
        changes = [f"{built:.1f} s", f"{added:.2f} s", f"{deleted:.2f} s"]
    alive = np.ones(len(stored), np.bool_)
    alive[gone] = False
    tenth = alive & (np.arange(len(stored)) % 10 == 3)
    plain, recall = _asked(queries, stored, alive, lambda q: store.query(q))
    filtered, precise = _asked(queries, stored, tenth, lambda q: store.query(q, part=3))
    hybrid = ""
    if hasattr(store, "hybrid"):
        each = [timed(lambda at=at: store.hybrid(queries[at], asked[at]))[0] for at in range(100)]
        hybrid = f"{1000 * float(np.median(each)):.2f} ms"
    size = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
    return [
        *changes,
        *(f"{plain:.2f} ms", f"{recall:.4f}", f"{filtered:.2f} ms", f"{precise:.4f}"),
        *(hybrid, f"{size / 2**20:,.0f}"),
    ]


def _asked(
    queries: np.ndarray,
    stored: np.ndarray,
    allowed: np.ndarray,
    query: Callable[[np.ndarray], list[int]],
) -> tuple[float, float]:
    """Median milliseconds of a query, and the share of the true neighbours that it found."""
    truth = nearest(Rows([stored], normalised=True), queries, K, allowed=allowed).positions
    query(queries[0])
    took, shares = [], []
    for row, right in zip(queries, truth.tolist(), strict=True):
        seconds, found = timed(lambda row=row: query(row))
        took.append(seconds)
        shares.append(len(set(found) & set(right)) / len(right))
    return 1000 * float(np.median(took)), float(np.mean(shares))


def _columns(start: int, count: int) -> tuple[list[str], list[dict[str, int]]]:
    numbers = range(start, start + count)
    return [str(at) for at in numbers], [{"part": at % 10} for at in numbers]


def _drawn_texts(count: int) -> list[str]:
    """Words as frequent as those of a language: the n-th with a share of about 1/n."""
    generator = np.random.default_rng(0)
    words = np.minimum(generator.zipf(1.2, (count, 12)), 50_000)
    return [" ".join(f"w{word}" for word in row) for row in words.tolist()]


def sentences(limit: int | None = None) -> list[str]:
    """Real sentences."""
    path = data_folder() / "wiki_sentences.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [line.strip() for line in stream][:limit]


def embedded(texts: Sequence[str], vectors: Path | None) -> np.ndarray:
    """Their unit vectors, read from a file or made now."""
    import tertium

    if vectors is None:
        return tertium.load().encode(texts, normalize=True)
    return unit(np.load(vectors)[: len(texts)])


if __name__ == "__main__":
    main()
