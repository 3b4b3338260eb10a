"""An index for those who have a database already: Parquet, Lance, or SQL for PostgreSQL."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tertium.corpus.index import Index
from tertium.errors import TertiumError, require
from tertium.files import atomic_path, check_ending, check_new_folder
from tertium.models.tokens import chunks, valid_text
from tertium.progress import bar

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

__all__ = ["ExportFormat", "export_index"]

_WINDOW = 4096
_OURS = ("id", "text", "passage", "start", "stop", "vector")
_HNSW = 2000  # dimensions that pgvector's graph takes


class ExportFormat(StrEnum):
    """Where an index goes."""

    PARQUET = "parquet"
    LANCE = "lance"
    PGVECTOR_SQL = "pgvector-sql"


_ENDINGS = {ExportFormat.PARQUET: (".parquet",), ExportFormat.PGVECTOR_SQL: (".sql",)}


def export_index(
    index: Index,
    output: Path,
    form: ExportFormat | str,
    *,
    where: str | None = None,
    table: str = "texts",
    progress: bool | None = None,
) -> int:
    """Write texts, columns and vectors, one row per vector; gives the number of rows.

    A long text has a row for each passage: ``passage`` counts them from 0, ``start`` and ``stop``
    say where it stands in the text. A column of the user's that is called as one of ours gets an
    underscore.

    Args:
        index: what is written, as it was opened.
        output: a .parquet or .sql file; of Lance, a folder that does not exist yet.
        form: ``parquet``, ``lance``, or ``pgvector-sql``: a script for ``psql``.
        where: only texts that meet this filter.
        table: the name of the table, in SQL.
        progress: False for no progress on standard error.
    """
    form = ExportFormat(form)
    if form in _ENDINGS:
        check_ending(output, _ENDINGS[form])
    rows = _rows(index, where)
    with bar(total=index.manifest.rows, label="exporting", unit="vector", show=progress) as shown:
        counted = _Counted(rows, shown)
        if form is ExportFormat.PGVECTOR_SQL:
            with atomic_path(output) as temporary, temporary.open("w", encoding="utf-8") as stream:
                _write_sql(index, counted, stream, table)
            return counted.count
        require("scale", purpose=f"Export to {form}", packages=("pyarrow",))
        schema = _schema(index)
        batches = _batches(counted, schema)
        if form is ExportFormat.PARQUET:
            from pyarrow.parquet import ParquetWriter

            with atomic_path(output) as temporary, ParquetWriter(temporary, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            return counted.count
        require("lance", purpose="Export to lance")
        import lance
        import pyarrow as pa

        check_new_folder(output)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        lance.write_dataset(reader, str(output))
    return counted.count


Row = dict[str, Any]


class _Counted:
    def __init__(self, rows: Iterator[Row], shown: Any) -> None:
        self._rows, self._shown, self.count = rows, shown, 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            self._shown.update(1)
            yield row


def _rows(index: Index, where: str | None) -> Iterator[Row]:
    names = _column_names(index)
    for entry in index.entries(where):
        for at, vector in enumerate(index.vectors(entry)):
            start, stop = entry.cuts[at] if entry.cuts is not None else (0, len(entry.text))
            found: Row = {"id": valid_text(entry.id), "text": valid_text(entry.text)}
            found |= {"passage": at, "start": start, "stop": stop}
            found |= {names[key]: _plain(value) for key, value in entry.columns.items()}
            yield {**found, "vector": vector}


def _plain(value: Any) -> Any:
    return valid_text(value) if isinstance(value, str) else value


def _column_names(index: Index) -> dict[str, str]:
    return {name: f"{name}_" if name in _OURS else name for name in index.manifest.columns}


def _column_types(index: Index) -> dict[str, str]:
    """``integer``, ``real`` or ``text`` for each column, the least that holds all its values."""
    found = {}
    for column, name in _column_names(index).items():
        kinds = index.column_types(column)
        found[name] = next((kind for kind in ("text", "real", "integer") if kind in kinds), "text")
    return found


def _schema(index: Index) -> "Schema":
    import pyarrow as pa

    types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
    ours = [("id", pa.string()), ("text", pa.string())]
    ours += [(name, pa.int64()) for name in ("passage", "start", "stop")]
    columns = [(name, types[kind]) for name, kind in _column_types(index).items()]
    width = index.manifest.model.dimension
    described = {b"tertium.model": index.manifest.model.name.encode(errors="replace")}
    vector = ("vector", pa.list_(pa.float32(), width))
    return pa.schema([*ours, *columns, vector], metadata=described)


def _batches(rows: "_Counted", schema: "Schema") -> Iterator["RecordBatch"]:
    import numpy as np
    import pyarrow as pa

    for window in chunks(rows, _WINDOW):
        arrays = []
        for field in schema:
            if field.name == "vector":
                flat = np.concatenate([row["vector"] for row in window])
                arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
                continue
            values = [row.get(field.name) for row in window]
            if pa.types.is_string(field.type):
                values = [None if value is None else str(value) for value in values]
            arrays.append(pa.array(values, field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_sql(index: Index, rows: _Counted, stream: IO[str], table: str) -> None:
    types = {"integer": "bigint", "real": "double precision", "text": "text"}
    columns = _column_types(index)
    width = index.manifest.model.dimension
    name = _identifier(table)
    lines = ["id text NOT NULL", "passage integer NOT NULL", "text text NOT NULL"]
    lines += ["start integer NOT NULL", "stop integer NOT NULL"]
    lines += [f"{_identifier(column)} {types[kind]}" for column, kind in columns.items()]
    lines += [f"vector vector({width}) NOT NULL", "PRIMARY KEY (id, passage)"]
    order = ("id", "passage", "text", "start", "stop", *columns)
    stream.write(
        "-- Texts and unit vectors of a tertium index: psql -f THIS_FILE DATABASE\n"
        "-- The nearest to a vector of the same model: ORDER BY vector <=> '[…]' LIMIT 10\n"
        "BEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
        f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + "\n);\n"
        f"COPY {name} ({', '.join(map(_identifier, (*order, 'vector')))}) FROM stdin;\n"
    )
    for row in rows:
        vector = "[" + ",".join(repr(float(value)) for value in row["vector"]) + "]"
        stream.write("\t".join([*(_copied(row.get(key)) for key in order), vector]) + "\n")
    stream.write("\\.\n")
    if width <= _HNSW:
        stream.write(f"CREATE INDEX ON {name} USING hnsw (vector vector_cosine_ops);\n")
    stream.write("COMMIT;\n")


_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\0": ""}


def _copied(value: Any) -> str:
    """A value as COPY reads it; PostgreSQL has no place for NUL."""
    if value is None:
        return "\\N"
    return re.sub(r"[\\\t\n\r\x08\0]", lambda match: _ESCAPES[match[0]], str(value))


def _identifier(name: str) -> str:
    if not name or "\0" in name or len(name.encode()) > 63:
        raise TertiumError(f"PostgreSQL has no place for a table or column called {name!r}.")
    return '"' + name.replace('"', '""') + '"'
