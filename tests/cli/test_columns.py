"""Columns by option, and columns that a command does not use."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROWS = [
    {"ID": "7", "Ticket A": "<p>the cat</p>", "Ticket B": "the dog", "similarity": "0.3"},
    {"ID": "8", "Ticket A": "a b", "Ticket B": "x, y", "similarity": ""},
]
NAMED = ("--column1", "ticket a", "--column2", "Ticket_B", "--strip-html")


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def test_score_keeps_what_it_does_not_use(
    run: Run, tickets: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    for ending in ("csv", "jsonl", "tsv", "parquet"):
        output = tmp_path / f"out.{ending}"
        ran = run("score", tickets, "-o", output, "-m", tiny_bert, *NAMED)
        assert ran.code == 0, ran.err
        if ending == "parquet":
            import pyarrow.parquet as pq

            rows = pq.read_table(output).to_pylist()
        elif ending == "jsonl":
            rows = [json.loads(line) for line in output.read_text().splitlines()]
        else:
            delimiter = "," if ending == "csv" else "\t"
            with output.open(newline="") as stream:
                rows = list(csv.DictReader(stream, delimiter=delimiter))
        assert list(rows[0]) == ["sentence1", "sentence2", "similarity", "ID", "input_similarity"]
        assert [(r["sentence1"], r["sentence2"], r["ID"], r["input_similarity"]) for r in rows] == [
            ("the cat", "the dog", "7", "0.3"),
            ("a b", "x, y", "8", ""),
        ]
    ran = run("score", tickets, "-o", tmp_path / "no.csv", "-m", tiny_bert, "--column1", "ticket a")
    assert ran.code == 2 and "belong together" in ran.err


def test_encode_and_cluster_keep_other_columns(
    run: Run, tickets: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "vectors.parquet"
    text = ("--column", "ticket a,ticket b", "--strip-html")
    ran = run("encode", tickets, "-o", output, "-m", tiny_bert, *text)
    assert ran.code == 0, ran.err
    rows = pq.read_table(output).to_pylist()
    assert [(r["text"], r["ID"], r["similarity"]) for r in rows] == [
        ("the cat the dog", "7", "0.3"),
        ("a b x, y", "8", ""),
    ]
    groups = tmp_path / "groups.jsonl"
    ran = run(
        "cluster", tickets, "-o", groups, "-m", tiny_bert, *text, "--k", 1, "--id-column", "id"
    )
    assert ran.code == 0, ran.err
    found = {row["id"]: row for row in map(json.loads, groups.read_text().splitlines())}
    assert set(found) == {"7", "8"} and found["7"]["input_similarity"] == "0.3"
    assert "ID" not in found["7"] and found["7"]["text"] == "the cat the dog"
