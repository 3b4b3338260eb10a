"""The SQLite file of an index: its manifest, texts, ids, columns and words; all but vectors.

A transaction of SQLite is the commit point of every change. The file is in WAL mode: whoever reads
keeps the state that it opened, for as long as it likes, while one process writes; in the other mode
(a rollback journal) readers and the writer would wait for each other. Every commit is on the disk
before it counts (``synchronous=FULL``), and so are the files of vectors that it names.
"""

import contextlib
import errno
import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from tertium.corpus.where import Where, column_name
from tertium.errors import TertiumError
from tertium.models.tokens import valid_text
from tertium.records.record import FileMark, Frozen, Record, parse_record

__all__ = [
    "DATABASE",
    "LOCK",
    "OLD_MANIFEST",
    "Dtype",
    "Entry",
    "GraphRecord",
    "Identity",
    "IndexFile",
    "IndexManifest",
    "Recall",
    "SegmentRecord",
    "Store",
    "damaged",
    "missing_index",
    "read_index_manifest",
]

DATABASE = "index.sqlite"
LOCK = ".lock"
OLD_MANIFEST = "manifest.json"  # of the format before
_APPLICATION = 0x74657274
_RESTORE = "Restore it from a copy, or build the index again."
_MOST_COLUMNS = 500
_FETCHED = 256  # rows at once
_WAIT = 60  # seconds for another connection that recovers or empties the log
_FULL = "database or disk is full"
_UNABLE = ("unable to open", "readonly", "locked", "interrupted")

_TABLES = "fields JOIN texts ON texts.number = fields.number"
_SCHEMA = """
CREATE TABLE manifest (json TEXT NOT NULL);
CREATE TABLE texts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    cuts TEXT,  -- where the passages of a long text begin and end, as JSON
    checksum INTEGER NOT NULL
);
CREATE TABLE fields (  -- a table of its own, so that a filter does not read the texts
    number INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,  -- row of the first vector; those of other passages follow it
    passages INTEGER NOT NULL
);
CREATE UNIQUE INDEX places ON fields (first);
CREATE TABLE dead (first INTEGER PRIMARY KEY, passages INTEGER NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, row);
"""


class Dtype(StrEnum):
    """How vectors are stored."""

    FLOAT32 = "float32"
    INT8 = "int8"  # a quarter of the size, and similarities that are off by about 0.0003


class Identity(Frozen):
    """A model as an index knows it."""

    name: str
    pooling: str | None
    dimension: int
    fingerprint: str
    truncate_dim: int | None = None  # numbers that are kept of each vector; None for all


class IndexFile(FileMark):
    """A file of an index."""

    model_config = ConfigDict(validate_by_name=True)

    size: int = Field(alias="bytes")


class SegmentRecord(Frozen):
    """A file of vectors; a converted index keeps those that it had, in folders."""

    name: str = Field(pattern=r"^(segment-\d+/vectors|vectors-\d+)\.npy$")  # never another place
    count: int = Field(ge=0)
    file: IndexFile


class GraphRecord(Frozen):
    """A graph over the first ``count`` vectors."""

    name: str = Field(pattern=r"^graph-\d+\.usearch$")
    count: int = Field(ge=0)
    file: IndexFile


class Recall(Frozen):
    """Share of the true nearest ``at`` that the index found, for some of its own texts as queries.

    Attributes:
        at: how many neighbours.
        queries: how many texts.
        value: from 0 to 1.
        texts: how many vectors the index held then.
        against: what vectors an exact search was made with: ``float32`` as the model gave them, or
            those that were stored as ``int8`` and no longer there otherwise.
    """

    at: int
    queries: int
    value: float
    texts: int
    against: Dtype


class IndexManifest(Record):
    """An index: its model, the files of its vectors in their order, its graph.

    Attributes:
        prompts: what was put before texts (``document``) and is put before queries (``query``);
            without a name, the model puts there what it always does.
        count: texts.
        rows: vectors, those of deleted texts included.
        dead: vectors of deleted texts.
        passages: whether a text has more than one vector.
        columns: names of further columns.
        recall: measured when it was built, compacted, or its graph grew; None: exact.
        next: number of the next file.
        generation: counts changes.
    """

    remedy: ClassVar[str] = f"The index is damaged. {_RESTORE}"

    format: int = 2
    model: Identity
    dtype: Dtype
    prompts: dict[str, str] = Field(default_factory=dict)
    count: int = 0
    rows: int = 0
    dead: int = 0
    passages: bool = False
    columns: tuple[str, ...] = ()
    segments: tuple[SegmentRecord, ...] = ()
    graph: GraphRecord | None = None
    recall: Recall | None = None
    next: int = 1
    generation: int = 0

    @property
    def covered(self) -> int:
        """How many vectors are in the graph."""
        return 0 if self.graph is None else self.graph.count

    def files(self) -> dict[str, IndexFile]:
        """All files but that of SQLite, by their places in the folder."""
        found = {segment.name: segment.file for segment in self.segments}
        return found if self.graph is None else {**found, self.graph.name: self.graph.file}


class Entry(NamedTuple):
    """A stored text."""

    number: int
    id: str
    text: str
    first: int
    passages: int
    cuts: list[tuple[int, int]] | None
    columns: dict[str, Any]

    def passage(self, row: int) -> str:
        """The part of the text that a vector was made of: all of it, unless it is long."""
        if self.cuts is None:
            return self.text
        start, stop = self.cuts[row - self.first]
        return self.text[start:stop]


def damaged(path: Path, reason: str) -> TertiumError:
    """The error for what no longer makes sense."""
    return TertiumError(f"{path} is damaged: {reason}. {_RESTORE}")


def missing_index(folder: Path) -> TertiumError:
    """The error for a folder without an index."""
    return TertiumError(
        f"{folder} holds no index: there is no {DATABASE}. Make one: tertium index build"
    )


class Store:
    """A connection to the SQLite file of an index.

    Args:
        folder: where the index is.
        writable: whether it is written to; whoever does holds the lock of the folder.
        create: make the file if there is none.
    """

    def __init__(self, folder: Path, *, writable: bool = False, create: bool = False) -> None:
        self.folder = folder
        self.path = folder / DATABASE
        if not create and not self.path.exists():
            raise missing_index(folder)
        with self._errors():
            self._connection = _connect(self.path, writable=writable)
            if create:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._file = _file(self.path)

    def close(self) -> None:
        """End the connection, and with it the state that it saw."""
        self._connection.close()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""
        with self._errors():
            return self._connection.execute(sql, values).fetchall()

    def execute_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of values."""
        with self._errors():
            self._connection.executemany(sql, values)

    def _each(self, sql: str, keys: Iterable[int], missing: str) -> list[Any]:
        """The one row that a statement gives for each key."""
        with self._errors():
            found = [self._connection.execute(sql, (key,)).fetchone() for key in keys]
        if None in found:
            raise damaged(self.path, missing)
        return found

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of a statement, one by one."""
        with self._errors():
            cursor = self._connection.execute(sql, values)
        while True:
            with self._errors():
                rows = cursor.fetchmany(_FETCHED)
            if not rows:
                return
            yield from rows

    @property
    def size(self) -> int:
        """Bytes of the file, once its log has been written back."""
        pages, size = (self.execute(f"PRAGMA page_{what}")[0][0] for what in ("count", "size"))
        return int(pages * size)

    @property
    def is_current(self) -> bool:
        """Whether the file is still the one at its place, and not one that took it."""
        return self.path.exists() and self._file == _file(self.path)

    @property
    def is_empty(self) -> bool:
        """Whether there is no index in it, as after a killed build."""
        return not self.execute("SELECT 1 FROM sqlite_master WHERE name = 'manifest'")

    def begin(self) -> IndexManifest:
        """See the index as it is now, and as nothing else until the next call."""
        with self._errors():
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
            self._connection.execute("BEGIN")
        if self.is_empty:
            raise missing_index(self.folder)
        rows = self.execute("SELECT json FROM manifest")
        if len(rows) != 1 or not isinstance(rows[0][0], str | bytes):
            raise damaged(self.path, "it holds no manifest")
        return parse_record(rows[0][0], IndexManifest, path=self.path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside counts together, or not at all."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def create(self) -> None:
        """Make the tables, in a transaction."""
        for statement in _statements(_SCHEMA):
            self.execute(statement)

    def write_manifest(self, manifest: IndexManifest) -> None:
        """Replace the manifest."""
        self.execute("DELETE FROM manifest")
        content = manifest.model_dump_json(by_alias=True)
        self.execute("INSERT INTO manifest VALUES (?)", (content,))

    def add_columns(self, known: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
        """Make columns that are new, and give all of them."""
        new = [name for name in dict.fromkeys(names) if name not in known]
        if len(known) + len(new) > _MOST_COLUMNS:
            raise TertiumError(f"An index has at most {_MOST_COLUMNS} columns beside its texts.")
        for name in new:
            self.execute(f"ALTER TABLE fields ADD COLUMN {column_name(name)}")
        return (*known, *new)

    def insert(self, entries: Sequence[Entry], columns: Sequence[str]) -> None:
        """Write texts with their columns and words."""
        self.execute_many(
            "INSERT INTO texts VALUES (?, ?, ?, ?, ?)",
            [
                (e.number, _bound(e.id), _bound(e.text), _cuts(e.cuts), _checksum(e.id, e.text))
                for e in entries
            ],
        )
        names = "".join(f", {column_name(name)}" for name in columns)
        marks = ", ?" * len(columns)
        self.execute_many(
            f"INSERT INTO fields (number, first, passages{names}) VALUES (?, ?, ?{marks})",
            [
                (e.number, e.first, e.passages, *(_bound(e.columns.get(name)) for name in columns))
                for e in entries
            ],
        )
        self._add_words(entries)

    def replace(self, entry: Entry, before: Entry) -> None:
        """Write another text, under another place, for one that is there."""
        self._remove_words([before])
        self.execute(
            "UPDATE texts SET text = ?, cuts = ?, checksum = ? WHERE number = ?",
            (
                _bound(entry.text),
                _cuts(entry.cuts),
                _checksum(entry.id, entry.text),
                entry.number,
            ),
        )
        self.execute(
            "UPDATE fields SET first = ?, passages = ? WHERE number = ?",
            (entry.first, entry.passages, entry.number),
        )
        self._bury([before])
        self._add_words([entry])

    def set_columns(self, number: int, columns: Mapping[str, Any]) -> None:
        """Write some columns of one text."""
        if columns:
            names = ", ".join(f"{column_name(name)} = ?" for name in columns)
            values = [_bound(value) for value in columns.values()]
            self.execute(f"UPDATE fields SET {names} WHERE number = ?", (*values, number))

    def delete(self, entries: Sequence[Entry]) -> None:
        """Remove texts; their vectors are dead."""
        self._remove_words(entries)
        numbers = [(entry.number,) for entry in entries]
        self.execute_many("DELETE FROM texts WHERE number = ?", numbers)
        self.execute_many("DELETE FROM fields WHERE number = ?", numbers)
        self._bury(entries)

    def _bury(self, entries: Sequence[Entry]) -> None:
        self.execute_many(
            "INSERT INTO dead VALUES (?, ?)", [(each.first, each.passages) for each in entries]
        )

    def _add_words(self, entries: Sequence[Entry]) -> None:
        self.execute_many(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(entry.number, valid_text(entry.text)) for entry in entries],
        )

    def _remove_words(self, entries: Sequence[Entry]) -> None:
        self.execute_many(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
            [(entry.number, valid_text(entry.text)) for entry in entries],
        )

    def next_number(self) -> int:
        """The number of the next text."""
        rows = self.execute("SELECT seq FROM sqlite_sequence WHERE name = 'texts'")
        return int(rows[0][0]) + 1 if rows else 1

    def entries(
        self, manifest: IndexManifest, condition: str = "1", values: Sequence[Any] = ()
    ) -> Iterator[Entry]:
        """Texts that meet a condition, in the order of their vectors."""
        names = "".join(f", fields.{column_name(name)}" for name in manifest.columns)
        for number, name, text, cuts, first, passages, *found in self.stream(
            f"SELECT texts.number, id, text, cuts, first, passages{names} FROM {_TABLES} "
            f"WHERE {condition} ORDER BY first",
            values,
        ):
            columns = {
                key: _free(value)
                for key, value in zip(manifest.columns, found, strict=True)
                if value is not None
            }
            try:
                places = None if cuts is None else [(int(a), int(b)) for a, b in json.loads(cuts)]
            except (ValueError, TypeError) as error:
                raise damaged(self.path, f"text {number} cannot be read") from error
            yield Entry(number, _free(name), _free(text), first, passages, places, columns)

    def entry(self, manifest: IndexManifest, number: int) -> Entry:
        """The text of a number."""
        for found in self.entries(manifest, "fields.number = ?", (number,)):
            return found
        raise damaged(self.path, f"text {number} is missing")

    def by_ids(self, manifest: IndexManifest, ids: Sequence[str]) -> dict[str, Entry]:
        """Texts by their ids, as far as they are there."""
        found: dict[str, Entry] = {}
        for name in ids:
            for entry in self.entries(manifest, "texts.id = ?", (_bound(name),)):
                found[name] = entry
        return found

    def numbers_at(self, rows: Iterable[int]) -> list[int]:
        """The numbers of the texts whose vectors stand at some rows."""
        sql = "SELECT number FROM fields WHERE first <= ? ORDER BY first DESC LIMIT 1"
        return [number for (number,) in self._each(sql, rows, "a vector belongs to no text")]

    def mask(self, manifest: IndexManifest, where: Where | None) -> NDArray[np.bool_] | None:
        """Which vectors are those of texts that are there and meet a filter; None: all are."""
        if where is None:
            if not manifest.dead:
                return None
            mask, chosen = np.ones(manifest.rows, np.bool_), False
            rows = self.stream("SELECT first, passages FROM dead")
        else:
            mask, chosen = np.zeros(manifest.rows, np.bool_), True
            sql = f"SELECT first, passages FROM {_TABLES if where.reads_texts else 'fields'}"
            rows = self.stream(f"{sql} WHERE {where.sql}", where.values)
        try:
            if manifest.passages:
                for first, passages in rows:
                    mask[first : first + passages] = chosen
            else:
                mask[np.fromiter((first for first, _ in rows), np.int64)] = chosen
        except (ValueError, TypeError, IndexError) as error:
            raise damaged(self.path, "a text has no vector") from error
        return mask

    def places(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        """The first row and the number of passages of some texts."""
        sql = "SELECT first, passages FROM fields WHERE number = ?"
        return self._each(sql, numbers, "words belong to no text")

    def find_words(
        self, words: Sequence[str], where: Where | None, most: int, *, total: int
    ) -> list[int]:
        """Numbers of texts that hold any of some words, by BM25, the best first.

        Args:
            words: any.
            where: a filter.
            most: how many texts.
            total: how many there are.
        """
        terms = self._telling(words, total)
        if not terms:
            return []
        query = " OR ".join(f'"{term}"' for term in terms)
        inside, values = "", list[Any]([query])
        if where is not None:
            inside = f" AND rowid IN (SELECT fields.number FROM {_TABLES} WHERE {where.sql})"
            values += where.values
        found = self.execute(
            f"SELECT rowid FROM words WHERE words MATCH ?{inside} ORDER BY rank, rowid LIMIT ?",
            (*values, most),
        )
        return [int(number) for (number,) in found]

    def _telling(self, words: Sequence[str], total: int) -> list[str]:
        """Words without those of more than half of the texts, which BM25 gives no weight.

        They would cost most of the time: all their texts have to be scored.
        """
        found = []
        for word in dict.fromkeys(words):
            rows = self.execute("SELECT doc FROM vocabulary WHERE term = ?", (word.lower(),))
            if not rows or rows[0][0] <= total / 2:
                found.append(word)
        return found

    def column_types(self, column: str) -> set[str]:
        """What kinds of values a column has."""
        rows = self.execute(f"SELECT DISTINCT typeof({column_name(column)}) FROM fields")
        return {"text" if kind == "blob" else kind for (kind,) in rows} - {"null"}

    def check(self, manifest: IndexManifest) -> None:
        """Read everything, and raise where something is damaged."""
        problems = self.execute("PRAGMA integrity_check(1)")
        if problems != [("ok",)]:
            raise damaged(self.path, str(problems[0][0]))
        count = rows = 0
        for name, text, checksum, passages in self.stream(
            f"SELECT id, text, checksum, passages FROM {_TABLES}"
        ):
            count, rows = count + 1, rows + passages
            if _checksum(_free(name), _free(text)) != checksum:
                raise damaged(self.path, f"text '{_free(name)}' has changed")
        dead = self.execute("SELECT coalesce(sum(passages), 0) FROM dead")[0][0]
        if (count, rows + dead, dead) != (manifest.count, manifest.rows, manifest.dead):
            raise damaged(self.path, "it does not hold what its manifest says")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in our words what SQLite says."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except UnicodeDecodeError as error:  # of what SQLite quotes in a message
            raise damaged(self.path, "it holds what is not text") from error
        except sqlite3.Error as error:
            if _FULL in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from error
            if "no such module: fts5" in str(error):
                raise TertiumError(
                    "The SQLite of this Python was built without FTS5, which an index needs. "
                    "Install another Python."
                ) from error
            if any(word in str(error) for word in _UNABLE):
                raise TertiumError(f"{self.path} cannot be used: {error}.") from error
            raise damaged(self.path, str(error)) from error


def _connect(path: Path, *, writable: bool) -> sqlite3.Connection:
    """Whoever reads writes as well: SQLite notes beside the file which state is being read.

    Where that is impossible and nobody can have left anything beside it, as on a read-only disk,
    the file is read as one that does not change.
    """
    if not writable and not os.access(path.parent, os.W_OK):
        log = path.with_name(f"{path.name}-wal")
        if not log.exists():
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    if not writable:
        connection.execute("PRAGMA query_only = ON")
    return connection


def read_index_manifest(folder: Path) -> IndexManifest:
    """The manifest of the index in ``folder``, as it is now."""
    with contextlib.closing(Store(folder)) as store:
        return store.begin()


def _file(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _statements(script: str) -> list[str]:
    lines = (line.split(" -- ")[0].rstrip() for line in script.splitlines())
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def _bound(value: Any) -> Any:
    """A value as SQLite stores it: what it has no type for becomes JSON."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # a lone surrogate is not text to SQLite
            return value.encode("utf-8", "surrogatepass")
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if value is None else _bound(json.dumps(value, ensure_ascii=False, default=str))


def _free(value: Any) -> Any:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def _cuts(cuts: list[tuple[int, int]] | None) -> str | None:
    return None if cuts is None else json.dumps(cuts)


def _checksum(name: str, text: str) -> int:
    return zlib.crc32(f"{name}\n{text}".encode("utf-8", "surrogatepass"))
