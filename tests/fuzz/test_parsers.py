"""Parsers of ours, given anything: they answer, or end in one ``TertiumError``."""

import asyncio
import contextlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tertium.corpus import Index
from tertium.corpus.convert import convert_if_old
from tertium.corpus.inputs import table
from tertium.corpus.store import DATABASE, read_index_manifest
from tertium.data.check import check_file
from tertium.data.csts import PUBLISHED, _read_archive
from tertium.data.readers import KINDS, detect_kind, iter_texts
from tertium.data.senteval import parse_sick, parse_sts, parse_stsb
from tertium.data.shards import JOB, JOURNAL, finished_job, finished_shards
from tertium.data.tables import FORMATS, read_records
from tertium.engines.export import RECORD, DamagedExportError, read_export
from tertium.errors import TertiumError
from tertium.jobs.folder import read_job
from tertium.recipes.files import parse_settings, read_recipe
from tertium.recipes.sweep import read_sweep
from tertium.records.manifest import FILE_NAME, read_manifest, read_members
from tertium.serve.protocol import ProtocolError, pack, read, read_blocking
from tests.fakes import HashEncoder
from tests.fuzz.conftest import EFFORTS, fuzz, kept

# Values of every kind that a file can hold, and bytes that begin like such a file.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["..", "/", "=1", "\x00", "\ud800", "1e999", "default"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def mutated(whole: bytes) -> st.SearchStrategy[bytes]:
    """``whole`` with some of it replaced, removed or doubled."""
    place = st.integers(0, len(whole))
    change = st.tuples(place, place, st.binary(max_size=8) | st.just(whole[:64]))
    return st.lists(change, min_size=1, max_size=3).map(lambda changes: _changed(whole, changes))


def _changed(whole: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for start, stop, new in changes:
        whole = whole[: min(start, stop)] + new + whole[max(start, stop) :]
    return whole


def with_values(valid: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSON like ``valid`` in which some values are replaced by others, wherever they are."""
    places = list(_places(valid))
    change = st.tuples(st.sampled_from(places), VALUES)
    changed = st.lists(change, min_size=1, max_size=3).map(lambda changes: _put(valid, changes))
    return changed.map(lambda value: json.dumps(value).encode())


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys: Any = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield (*above, key)
        yield from _places(value[key], (*above, key))


def _put(valid: Any, changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    value = json.loads(json.dumps(valid))
    for (*parents, last), new in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier change was above it
            place = value
            for part in parents:
                place = place[part]
            place[last] = new
    return value


def refused_or_read(work: Callable[[], object]) -> None:
    with contextlib.suppress(TertiumError):
        work()


# tables

LINES = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=20)
    | st.sampled_from(['"', 'a,"b', "a\tb", "sentence1\tsentence2\tscore", "sentence1,sentence2"])
    | VALUES.map(json.dumps),
    max_size=6,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


def read_table(path: Path) -> None:
    """Everything that reads a table."""
    refused_or_read(lambda: list(read_records(path)))
    refused_or_read(lambda: list(iter_texts(path)))
    refused_or_read(lambda: detect_kind(path))
    for kind in (None, *KINDS):
        refused_or_read(lambda kind=kind: check_file(path, kind=kind))


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("ending", [*FORMATS, ".tsv.gz"])
def test_tables(ending: str, effort: settings, tmp_path: Path) -> None:
    path = tmp_path / f"any{ending}"

    @given(st.binary(max_size=200) | LINES)
    def any_bytes(content: bytes) -> None:
        path.write_bytes(content)
        read_table(path)

    fuzz(effort, any_bytes)


@pytest.mark.parametrize("file", kept("tables"), ids=lambda file: file.name)
def test_kept_tables(file: Path) -> None:
    read_table(file)


@pytest.mark.parametrize("effort", EFFORTS)
def test_damaged_parquet(effort: settings, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "any.parquet"
    pq.write_table(pa.table({"sentence1": ["a"], "sentence2": ["b"], "score": [1.0]}), path)
    whole = path.read_bytes()

    @given(mutated(whole))
    def damaged(content: bytes) -> None:
        path.write_bytes(content)
        refused_or_read(lambda: list(read_records(path)))

    fuzz(effort, damaged)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl"])
def test_what_is_written_comes_back(ending: str, effort: settings, tmp_path: Path) -> None:
    path = tmp_path / f"own{ending}"
    # TSV has no way to write tabs, line breaks and lone surrogates, and no reader takes NUL.
    excluded = "\0\r\n\t" if ending == ".tsv" else "\0\r"
    texts = st.text(st.characters(codec="utf-8", exclude_characters=excluded), max_size=30)

    @given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
    def round_trip(rows: list[tuple[str, str]]) -> None:
        with table(path, ("a", "b")) as write:
            for row in rows:
                write(row)
        back = [tuple(record.values[name] for name in ("a", "b")) for record in read_records(path)]
        assert back == rows

    fuzz(effort, round_trip)


@pytest.mark.parametrize("effort", EFFORTS)
def test_senteval(effort: settings) -> None:
    lines = st.lists(st.text(max_size=30) | st.just("0\t1\t2\t3\t4.5\ta\tb"), max_size=5)

    @given(lines, lines)
    def any_lines(first: list[str], second: list[str]) -> None:
        refused_or_read(lambda: parse_sts(first, second))
        refused_or_read(lambda: parse_stsb(first))
        refused_or_read(lambda: parse_sick(first))

    fuzz(effort, any_lines)


# recipes


@pytest.mark.parametrize("effort", EFFORTS)
def test_recipes(effort: settings, tmp_path: Path) -> None:
    path = tmp_path / "any.yaml"
    valid = read_recipe("seaver-minilm").to_dict()
    texts = st.text(max_size=40) | LINES.map(lambda content: content.decode(errors="replace"))

    @given(with_values(valid) | mutated(yaml.safe_dump(valid).encode()) | texts.map(str.encode))
    def any_recipe(content: bytes) -> None:
        path.write_bytes(content)
        refused_or_read(lambda: read_recipe(str(path), seed=1))
        refused_or_read(lambda: read_sweep(str(path)))

    fuzz(effort, any_recipe)


@pytest.mark.parametrize("effort", EFFORTS)
def test_settings(effort: settings) -> None:
    part = st.sampled_from(["encoder", "stages", "0", "99", "csts", "train", "", "-1", "name"])
    path = st.lists(part | st.text(max_size=5), max_size=4).map(".".join)
    value = st.text(max_size=15) | VALUES.map(json.dumps)
    override = st.tuples(path, value).map("=".join) | st.text(max_size=10)

    @given(st.lists(override, max_size=3))
    def any_setting(texts: list[str]) -> None:
        refused_or_read(lambda: read_recipe("seaver-minilm", settings=parse_settings(texts)))

    fuzz(effort, any_setting)


@pytest.mark.parametrize("file", kept("recipes"), ids=lambda file: file.name)
def test_kept_recipes(file: Path) -> None:
    for parse in (read_recipe, partial(read_recipe, seed=1), read_sweep):
        with pytest.raises(TertiumError):
            parse(str(file))


# manifests and other records

MODEL = {
    "format": 1,
    "kind": "ensemble",
    "scale": [-1, 1],
    "training_data": [{"name": "STS-B", "split": "train"}],
    "details": {"members": [{"folder": "member-1", "name": "x", "weight": 1.0}]},
}
JOB_RECORD = {
    "content": "texts",
    "input": {"path": "a.txt", "size": 1, "modified": 1, "sha256": "0"},
    "model": {"name": "default", "sha256": "0"},
    "options": {},
    "rows": 10,
    "skipped": 0,
    "shard_rows": 5,
}
DONE = {"shard": 0, "rows": 1, "size": 1, "sha256": "0", "counts": {"cut": 0}}


def read_records_of_folders(folder: Path, content: bytes) -> None:
    """Everything that reads a small file which describes a folder."""
    for name in (FILE_NAME, "manifest.json", JOB, JOURNAL, RECORD):
        (folder / name).write_bytes(content)

    def members() -> None:
        manifest = read_manifest(folder)
        if manifest is not None:
            read_members(folder, manifest)

    refused_or_read(members)
    refused_or_read(lambda: convert_if_old(folder))
    refused_or_read(lambda: read_job(folder))
    refused_or_read(lambda: finished_job(folder))
    finished_shards(folder)
    with contextlib.suppress(DamagedExportError):
        read_export(folder, fingerprint="0")


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("valid", [MODEL, JOB_RECORD, DONE], ids=["model", "job", "shard"])
def test_manifests(valid: dict[str, Any], effort: settings, tmp_path: Path) -> None:
    contents = st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode())

    @given(with_values(valid) | mutated(json.dumps(valid).encode()) | contents)
    def any_manifest(content: bytes) -> None:
        read_records_of_folders(tmp_path, content)

    fuzz(effort, any_manifest)


@pytest.mark.parametrize("file", kept("manifests"), ids=lambda file: file.name)
def test_kept_manifests(file: Path, tmp_path: Path) -> None:
    read_records_of_folders(tmp_path, file.read_bytes())
    with pytest.raises(TertiumError):
        convert_if_old(tmp_path)


# an index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "index"
    Index.build(folder, [f"text {number}" for number in range(8)], HashEncoder())
    return folder


def search(folder: Path) -> None:
    opened = Index.open(folder, HashEncoder())
    opened.search("text 1", top_k=3)
    opened.search("text 1", top_k=3, where="id != '2'", hybrid=True)
    for _ in opened:
        pass


def write_manifest(folder: Path, content: str | bytes) -> None:
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("UPDATE manifest SET json = ?", (content,))
        connection.commit()


@pytest.mark.parametrize("effort", EFFORTS)
def test_manifests_of_an_index(effort: settings, index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index")
    valid = read_index_manifest(folder).model_dump_json(by_alias=True)

    @given(with_values(json.loads(valid)) | mutated(valid.encode()))
    def any_manifest(content: bytes) -> None:
        write_manifest(folder, content)
        refused_or_read(lambda: search(folder))

    fuzz(effort, any_manifest)


def test_an_index_without_segments(index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index")
    manifest = read_index_manifest(folder).model_copy(update={"segments": ()})
    write_manifest(folder, manifest.model_dump_json(by_alias=True))
    with pytest.raises(TertiumError, match="do not hold what its manifest says"):
        search(folder)


@pytest.mark.parametrize("effort", EFFORTS)
def test_vectors_of_an_index(effort: settings, index: Path, tmp_path: Path) -> None:
    """Also where the manifest agrees with the size of the damaged file."""
    folder = shutil.copytree(index, tmp_path / "index")
    manifest = json.loads(read_index_manifest(folder).model_dump_json(by_alias=True))
    (segment,) = manifest["segments"]
    path = folder / segment["name"]
    whole = path.read_bytes()
    zipped = io.BytesIO()
    np.savez(zipped, a=np.arange(3))
    others = [b"", zipped.getvalue(), _npy(np.zeros(())), _npy(np.zeros((9, 16), complex))]

    @given(mutated(whole) | st.binary(max_size=100) | st.sampled_from(others))
    def damaged(content: bytes) -> None:
        path.unlink()  # what is still mapped must not shrink
        path.write_bytes(content)
        segment["file"]["bytes"] = len(content)
        write_manifest(folder, json.dumps(manifest))
        refused_or_read(lambda: search(folder))

    fuzz(effort, damaged)


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_database_of_an_index(effort: settings, index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index")
    path = folder / DATABASE
    whole = path.read_bytes()

    @given(mutated(whole) | st.binary(max_size=100))
    def damaged(content: bytes) -> None:
        for each in folder.glob(f"{DATABASE}*"):
            each.unlink(missing_ok=True)  # closing removes some as well
        path.write_bytes(content)
        refused_or_read(lambda: search(folder))

    fuzz(effort, damaged)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


# frames between processes


def read_async(content: bytes) -> object:
    async def run() -> object:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        return await read(reader)

    return asyncio.run(run())


@pytest.mark.parametrize("effort", EFFORTS)
def test_frames(effort: settings) -> None:
    @given(st.binary(max_size=40) | mutated(pack({"a": [1]}, b"body")))
    def any_bytes(content: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            read_blocking(io.BufferedReader(io.BytesIO(content)))  # type: ignore[type-var]
        with contextlib.suppress(ProtocolError, asyncio.IncompleteReadError):
            read_async(content)

    @given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(0, 99)), st.binary())
    def round_trip(head: dict[str, int], body: bytes) -> None:
        content = pack(head, body)
        stream = io.BufferedReader(io.BytesIO(content * 2))  # type: ignore[type-var]
        assert read_blocking(stream) == read_blocking(stream) == read_async(content) == (head, body)
        assert read_blocking(stream) is None

    fuzz(effort, any_bytes)
    fuzz(effort, round_trip)


@pytest.mark.parametrize("file", kept("frames"), ids=lambda file: file.name)
def test_kept_frames(file: Path) -> None:
    with pytest.raises(ProtocolError):
        read_blocking(io.BufferedReader(io.BytesIO(file.read_bytes())))  # type: ignore[type-var]


# the archive of C-STS


@pytest.mark.parametrize("effort", EFFORTS)
def test_archives(effort: settings) -> None:
    import gzip
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for split in ("train", "validation", "test"):
            entry = tarfile.TarInfo(f"csts_{split}.csv")
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"a,b"))
    plain = stream.getvalue()[:4096]

    @given(mutated(plain).map(lambda tar: gzip.compress(tar, 1)) | mutated(gzip.compress(plain)))
    def damaged(content: bytes) -> None:
        refused_or_read(lambda: _read_archive(Path("bundle"), content, PUBLISHED["C-STS"]))

    fuzz(effort, damaged)
