"""Whole jobs, on models without weights."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import integers, lists, text

from tertium.data.shards import Content, Shard
from tertium.data.tables import DataError
from tertium.errors import TertiumError
from tertium.jobs import iter_scores, iter_vectors, read_vectors
from tertium.jobs.folder import Journal, ShardWriter, disk_errors
from tertium.jobs.request import Execution
from tertium.jobs.source import OnError, Prescan, SourceRow
from tertium.jobs.work import ShardWorker, Work
from tertium.jobs.workers import TaskQueue
from tests.jobs.conftest import TEXTS
from tests.jobs.stubs import FAST, LOADER, Stub, contents, job

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def expected(model: Path, texts: list[str], **options: Any) -> np.ndarray:
    return Stub(model.name).encode(texts, **options)


@pytest.mark.parametrize("workers", [1, 3])
def test_vectors_in_the_order_of_the_input(
    texts: Path, model: Path, tmp_path: Path, workers: int
) -> None:
    finished = job(texts, tmp_path / "out", model=model, execution=replace(FAST, workers=workers))
    assert (finished.rows, finished.skipped, finished.shards, finished.made) == (34, 0, 9, 9)
    assert finished.about == {"model": "model", "dimension": 16}
    np.testing.assert_array_equal(read_vectors(tmp_path / "out"), expected(model, TEXTS))
    blocks = list(iter_vectors(tmp_path / "out", rows=3))
    assert max(len(block.texts) for block in blocks) == 3
    assert [text for block in blocks for text in block.texts] == TEXTS
    assert [line for block in blocks for line in block.lines] == list(range(1, 35))


def test_the_number_of_workers_changes_no_byte(texts: Path, model: Path, tmp_path: Path) -> None:
    for workers in (1, 2, 3):
        execution = replace(FAST, workers=workers)
        job(texts, tmp_path / str(workers), model=model, execution=execution, delay=0.001)
    one = contents(tmp_path / "1")
    assert set(one) == {"_job.json", "_shards.jsonl", *(f"part-{i:06d}.parquet" for i in range(9))}
    assert contents(tmp_path / "2") == contents(tmp_path / "3") == one


def test_the_folder_is_one_table_to_readers_of_parquet(model: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    (tmp_path / "in.tsv").write_bytes(BAD)
    job(tmp_path / "in.tsv", tmp_path / "out", model=model, on_error=OnError.SKIP_AND_LOG)
    assert (tmp_path / "out" / "_skipped.jsonl").exists()
    table = pyarrow.parquet.read_table(tmp_path / "out")  # as pandas.read_parquet does
    assert table.column_names == ["line", "text", "embedding"]
    assert table["text"].to_pylist() == ["fine", "last"]


def test_a_folder_with_the_earlier_names_is_read_and_resumed(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job(texts, out, model=model)
    whole = contents(out)
    for name in ("job.json", "shards.jsonl"):
        (out / f"_{name}").rename(out / name)
    np.testing.assert_array_equal(read_vectors(out), expected(model, TEXTS))
    (out / "part-000003.parquet").unlink()
    assert job(texts, out, model=model).made == 1
    assert contents(out) == whole


@pytest.mark.parametrize(
    ("processors", "threads", "device", "workers"),
    [(4, 1, "cpu", 4), (16, 1, "cpu", 8), (6, 2, "cpu", 3), (2, 4, "cpu", 1), (16, 1, "cuda", 1)],
)
def test_workers_that_nobody_asked_for(
    processors: int, threads: int, device: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tertium.jobs.run import _default_workers

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    work = Work(Content.TEXTS, "model", loading={"device": device}, threads=threads)
    assert _default_workers(work) == workers


def test_a_finished_job_is_not_made_again(texts: Path, model: Path, tmp_path: Path) -> None:
    job(texts, tmp_path / "out", model=model)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert job(texts, tmp_path / "out", model=model, shard_rows=None).made == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


@given(rows=lists(text(), min_size=1, max_size=9), size=integers(1, 4))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives(
    rows: list[str], size: int, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    lines = [json.dumps({"text": row}) for row in rows]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    job(folder / "in.jsonl", folder / "out", model=model, shard_rows=size)
    found = [text for block in iter_vectors(folder / "out") for text in block.texts]
    assert found == rows


def test_a_lone_surrogate_is_replaced_in_the_file(tmp_path: Path) -> None:
    with ShardWriter(
        tmp_path / "x", columns=["text"], width=None, dtype="float32", metadata={}
    ) as writer:
        writer.write([SourceRow(1, ("a\ud800b",))], np.zeros(1))
    assert pq.read_table(tmp_path / "x").column("text").to_pylist() == ["a\ufffdb"]


def test_one_row(model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("alone\n")
    finished = job(tmp_path / "one.txt", tmp_path / "out", model=model, shard_rows=None)
    assert (finished.rows, finished.shards) == (1, 1)
    np.testing.assert_array_equal(read_vectors(tmp_path / "out"), expected(model, ["alone"]))


@pytest.mark.parametrize("on_error", OnError)
@pytest.mark.parametrize(("name", "content"), [("a.txt", ""), ("a.tsv", "text\n"), ("a.jsonl", "")])
def test_no_rows_are_an_error_that_leaves_nothing(
    model: Path, tmp_path: Path, name: str, content: str, on_error: OnError
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}: the file holds no rows"):
        job(tmp_path / name, tmp_path / "out", model=model, on_error=on_error)
    assert not (tmp_path / "out").exists()


def test_a_column_of_a_parquet_file(model: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"id": list(range(10)), "Title": [f"title {at}" for at in range(10)]})
    pq.write_table(table, tmp_path / "in.parquet")
    job(tmp_path / "in.parquet", tmp_path / "out", model=model, column="title")
    blocks = list(iter_vectors(tmp_path / "out"))
    assert [text for block in blocks for text in block.texts] == [f"title {at}" for at in range(10)]
    assert blocks[0].lines.tolist() == [1, 2, 3, 4]


def test_normalized_half_precision(texts: Path, model: Path, tmp_path: Path) -> None:
    job(texts, tmp_path / "out", model=model, normalize=True, dtype="float16")
    schema = pq.read_schema(tmp_path / "out" / "part-000000.parquet")
    assert str(schema.field("embedding").type).startswith("fixed_size_list<element: halffloat")
    found = read_vectors(tmp_path / "out")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(
        found, expected(model, TEXTS, normalize=True).astype(np.float16).astype(np.float32)
    )


# scores


@pytest.mark.parametrize("content", [Content.PAIRS, Content.TRIPLES])
def test_scores_beside_their_texts(model: Path, tmp_path: Path, content: Content) -> None:
    rows = [(f"a {at}", f"b {at % 3}", "size" if at % 2 else "colour") for at in range(11)]
    lines = ["sentence1\tsentence2\tcondition", *("\t".join(row) for row in rows)]
    (tmp_path / "in.tsv").write_text("\n".join(lines) + "\n")
    finished = job(tmp_path / "in.tsv", tmp_path / "out", model=model, content=content)
    assert finished.about == {"model": "model", "scale": [-1.0, 1.0]}
    blocks = list(iter_scores(tmp_path / "out"))
    width = len(content.columns)
    assert [row for block in blocks for row in block.texts] == [row[:width] for row in rows]
    scores = np.concatenate([block.scores for block in blocks])
    np.testing.assert_array_equal(scores, Stub("model").score(rows))
    with pytest.raises(TertiumError, match="holds scores, made by tertium score"):
        read_vectors(tmp_path / "out")


def test_blank_conditions_are_counted_once(model: Path, tmp_path: Path) -> None:
    rows = [f"a\tb {at}\t{'' if at < 6 else 'c'}" for at in range(9)]
    (tmp_path / "in.tsv").write_text("\n".join(["s1\ts2\tcondition", *rows]) + "\n")
    with pytest.warns(match=r"6 of 9 triples have no condition"):
        job(tmp_path / "in.tsv", tmp_path / "out", model=model, content=Content.TRIPLES)


# bad rows

BAD = b"text\tid\nfine\t1\n\xff\t2\nfine too\t3\tmore\nlast\t4\n"


def test_a_bad_row_ends_the_job_before_it_begins(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_bytes(BAD)
    with pytest.raises(DataError, match=r"in\.tsv:3: .*not UTF-8"):
        job(tmp_path / "in.tsv", tmp_path / "out", model=model)
    assert not (tmp_path / "out").exists()


def test_bad_rows_are_skipped_and_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_bytes(BAD)
    finished = job(
        tmp_path / "in.tsv", tmp_path / "out", model=model, on_error=OnError.SKIP_AND_LOG
    )
    assert (finished.rows, finished.skipped) == (2, 2)
    (block,) = iter_vectors(tmp_path / "out")
    assert (block.lines.tolist(), block.texts) == ([2, 5], ["fine", "last"])
    log = [json.loads(x) for x in (tmp_path / "out" / "_skipped.jsonl").read_text().splitlines()]
    assert [entry["line"] for entry in log] == [3, 4]
    assert "UTF-8" in log[0]["reason"] and "2 columns" in log[1]["reason"]


def test_two_faults_of_a_row_are_one_skipped_row(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("s1,s2\na,b\n , \n")
    finished = job(
        *(tmp_path / "in.csv", tmp_path / "out"),
        model=model,
        content=Content.PAIRS,
        on_error=OnError.SKIP_AND_LOG,
    )
    assert (finished.rows, finished.skipped) == (1, 1)
    log = (tmp_path / "out" / "_skipped.jsonl").read_text().splitlines()
    assert [json.loads(entry)["column"] for entry in log] == ["s1", "s2"]


@pytest.mark.parametrize("on_error", OnError)
def test_a_column_that_is_not_there_is_no_bad_row(
    model: Path, tmp_path: Path, on_error: OnError
) -> None:
    (tmp_path / "in.tsv").write_text("title\nfine\n")
    with pytest.raises(DataError, match="needs text in column body"):
        job(tmp_path / "in.tsv", tmp_path / "out", model=model, column="body", on_error=on_error)


def test_nothing_but_bad_rows(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("no\nneither\n")
    with pytest.raises(DataError, match=r"in\.jsonl:1"):
        job(*(tmp_path / "in.jsonl", tmp_path / "out"), model=model, on_error=OnError.SKIP_AND_LOG)


# what does not fit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shard_rows": 5}, "shard-rows was 4 and is now 5"),
        ({"normalize": True}, "normalize was 'False' and is now 'True'"),
        ({"on_error": OnError.SKIP_AND_LOG}, "on-error was 'fail' and is now 'skip-and-log'"),
        ({"delay": 0.001}, "delay was not given and is now '0.001'"),
        ({"content": Content.PAIRS}, "content was 'texts' and is now 'pairs'"),
    ],
)
def test_other_options_are_refused(
    texts: Path, model: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    job(texts, tmp_path / "out", model=model)
    before = contents(tmp_path / "out")
    with pytest.raises(TertiumError, match=message):
        job(texts, tmp_path / "out", model=model, **change)
    assert contents(tmp_path / "out") == before


def test_another_model_is_refused(texts: Path, model: Path, tmp_path: Path) -> None:
    job(texts, tmp_path / "out", model=model)
    (model / "config.json").write_text('{"other": 1}')
    with pytest.raises(TertiumError, match=r"the model .* has changed"):
        job(texts, tmp_path / "out", model=model)


def test_another_input_is_refused_and_a_copy_is_not(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    job(texts, tmp_path / "out", model=model)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(texts.read_bytes())
    assert job(copy, tmp_path / "out", model=model).made == 0
    for changed in (texts.read_text("utf-8") + "more\n", texts.read_text("utf-8")[::-1]):
        copy.write_text(changed, encoding="utf-8")
        with pytest.raises(TertiumError, match=r"copy\.txt has changed since"):
            job(copy, tmp_path / "out", model=model)


def test_a_job_without_a_finished_shard_may_be_begun_anew(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'dely'"):
        job(texts, tmp_path / "out", model=model, dely=1)
    (tmp_path / "out" / "part-000099.parquet").write_bytes(b"never noted")
    job(texts, tmp_path / "out", model=model, shard_rows=8)
    job(texts, tmp_path / "other", model=model, shard_rows=8)
    assert contents(tmp_path / "out") == contents(tmp_path / "other")


@pytest.mark.parametrize("change", ["more", "less"])
def test_an_input_that_changes_under_way_is_noticed(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    from tertium.jobs import run

    def prescan(*arguments: Any, **options: Any) -> Prescan:
        found = original(*arguments, **options)
        lines = TEXTS if change == "more" else TEXTS[:9]
        texts.write_text("\n".join([*lines, "new"]) + "\n", encoding="utf-8")
        return found

    original = run.prescan
    monkeypatch.setattr(run, "prescan", prescan)
    with pytest.raises(TertiumError, match=r"changed while it was being read"):
        job(texts, tmp_path / "out", model=model)


def test_a_folder_with_other_things_is_refused(texts: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(TertiumError, match=r"not empty and contains no _job\.json"):
        job(texts, tmp_path / "out", model=model)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]
    with pytest.raises(TertiumError, match="is a file, but shards need a folder"):
        job(texts, texts, model=model)


def test_an_unreadable_job_is_refused(texts: Path, model: Path, tmp_path: Path) -> None:
    job(texts, tmp_path / "out", model=model)
    (tmp_path / "out" / "_job.json").write_text('{"format": 99}')
    with pytest.raises(TertiumError, match=r"_job\.json: format 99 .*Upgrade"):
        job(texts, tmp_path / "out", model=model)


def test_two_processes_do_not_share_a_folder(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    monkeypatch.setattr("tertium.jobs.folder._PATIENCE", 0)
    job(texts, tmp_path / "out", model=model)
    with (
        FileLock(tmp_path / "out" / ".lock"),
        pytest.raises(TertiumError, match="out is in use by another process"),
    ):
        job(texts, tmp_path / "out", model=model)


@pytest.mark.parametrize(
    ("execution", "message"),
    [
        ({"workers": 0}, "at least one worker"),
        ({"threads": 0}, "at least one worker"),
        ({"cluster": "slurm"}, "Unknown cluster 'slurm'"),
        ({"address": "auto"}, "--ray-address needs --engine-cluster ray"),
    ],
)
def test_a_crew_that_cannot_work(execution: dict[str, Any], message: str) -> None:
    with pytest.raises(TertiumError, match=message):
        Execution(**execution)


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"shard_rows": 0}])
def test_a_request_that_makes_no_sense(
    texts: Path, model: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(TertiumError, match=r"float32 or float16|at least one row"):
        job(texts, tmp_path / "out", model=model, **options)


# accidents


@pytest.mark.parametrize("accident", ["truncated", "flipped", "missing", "empty", "swapped"])
def test_a_damaged_shard_is_found_and_made_anew(
    texts: Path, model: Path, tmp_path: Path, accident: str
) -> None:
    job(texts, tmp_path / "out", model=model)
    before = contents(tmp_path / "out")
    victim = tmp_path / "out" / "part-000003.parquet"
    whole = victim.read_bytes()
    if accident == "missing":
        victim.unlink()
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        neighbour = before["part-000002.parquet"]
        victim.write_bytes(
            {
                "truncated": whole[:middle],
                "flipped": flipped,
                "empty": b"",
                "swapped": neighbour,
            }[accident]
        )
    assert job(texts, tmp_path / "out", model=model).made == 1
    assert contents(tmp_path / "out") == before


def test_a_shard_that_cannot_be_read_says_what_to_do(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    job(texts, tmp_path / "out", model=model)
    (tmp_path / "out" / "part-000003.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(TertiumError, match=r"part-000003\.parquet cannot be read .* rebuilds them"):
        read_vectors(tmp_path / "out")
    (tmp_path / "out" / "part-000003.parquet").unlink()
    with pytest.raises(TertiumError, match="has 8 of 9 shards"):
        read_vectors(tmp_path / "out")
    with pytest.raises(TertiumError, match=r"holds no _job\.json"):
        read_vectors(tmp_path)


def test_a_half_written_line_of_the_journal_is_no_record(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    job(texts, tmp_path / "out", model=model)
    before = contents(tmp_path / "out")
    journal = tmp_path / "out" / "_shards.jsonl"
    journal.write_bytes(before["_shards.jsonl"][:-30])
    assert job(texts, tmp_path / "out", model=model).made == 1
    journal.write_bytes(b'{"shard": 1}\n[]\n' + before["_shards.jsonl"])
    assert job(texts, tmp_path / "out", model=model).made == 0
    assert contents(tmp_path / "out") == before


def test_a_worker_that_is_killed_is_replaced(texts: Path, model: Path, tmp_path: Path) -> None:
    texts.write_text(texts.read_text("utf-8") + "crash\nafter\n", encoding="utf-8")
    crash = str(tmp_path / "crashed")
    finished = job(texts, tmp_path / "out", model=model, crash=crash)
    assert Path(crash).exists() and finished.rows == 36
    wanted = expected(model, [*TEXTS, "crash", "after"])
    np.testing.assert_array_equal(read_vectors(tmp_path / "out"), wanted)


def test_a_shard_that_ends_every_worker_ends_the_job(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    texts.write_text(texts.read_text("utf-8") + "crash\n", encoding="utf-8")
    with pytest.raises(TertiumError, match=r"3 times at shard 8, lines 33 to 35 \(signal 9\)"):
        job(texts, tmp_path / "out", model=model, always=True)
    assert len(list((tmp_path / "out").glob("part-*"))) >= 6


def test_workers_that_cannot_begin_end_the_job(texts: Path, model: Path, tmp_path: Path) -> None:
    queue = TaskQueue(iter(()))
    queue.lost(None, "signal 9")
    queue.lost(None, "signal 9")
    with pytest.raises(TertiumError, match=r"3 times before it could start \(signal 9\)"):
        queue.lost(None, "signal 9")


def test_a_result_that_is_not_finite_names_its_line(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    texts.write_text("fine\n" * 5 + "nan\n")
    with pytest.raises(TertiumError, match=r"not finite for line 5"):
        job(texts, tmp_path / "out", model=model)


def test_a_mistake_in_a_worker_is_shown_whole(texts: Path, model: Path, tmp_path: Path) -> None:
    texts.write_text("fine\nbug\n")
    with pytest.raises(RuntimeError, match=r"Traceback(.|\n)*a mistake in the model"):
        job(texts, tmp_path / "out", model=model)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_told_and_the_job_goes_on_later(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    from tertium.jobs import folder

    job(texts, tmp_path / "whole", model=model)
    original = folder.ShardWriter.write
    written = 0

    def write(self: Any, *arguments: Any) -> None:
        nonlocal written
        written += 1
        if written > 3:
            raise OSError(code, os.strerror(code))
        original(self, *arguments)

    one = replace(FAST, workers=1)
    with monkeypatch.context() as patch:
        patch.setattr(folder.ShardWriter, "write", write)
        what = "cannot be written" if code == errno.EIO else "no space left"
        with pytest.raises(TertiumError, match=f"{what}.*rerun the command"):
            job(texts, tmp_path / "out", model=model, execution=one)
    left = [path.name for path in (tmp_path / "out").iterdir() if path.name != ".lock"]
    assert sorted(left) == [
        "_job.json",
        "_shards.jsonl",
        *(f"part-{i:06d}.parquet" for i in range(3)),
    ]
    assert job(texts, tmp_path / "out", model=model, execution=one).made == 6
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_arrow_tells_a_full_disk_by_its_number() -> None:
    options: dict[str, Any] = {"columns": ["text"], "dtype": "float32", "metadata": {}}
    rows = [SourceRow(1, ("a",))] * 4096
    vectors = np.random.default_rng(0).standard_normal((4096, 64))
    with (
        pytest.raises(TertiumError, match="no space left"),
        disk_errors(Path("out")),
        ShardWriter(Path("/dev/full"), width=64, **options) as writer,
    ):
        writer.write(rows, vectors)


def test_a_full_disk_under_the_journal(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.open

    def full(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if self.name == "_shards.jsonl" and mode == "a":
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(TertiumError, match="no space left"):
            job(texts, tmp_path / "out", model=model)
    assert job(texts, tmp_path / "out", model=model).made == 9


def test_shards_and_records_are_on_the_disk_before_they_count(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("tertium.files.sync", lambda path: synced.append(path.name))
    monkeypatch.setattr("os.fsync", lambda handle: synced.append("journal"))
    worker = ShardWorker(Work(Content.TEXTS, str(model), loader=LOADER))
    journal = Journal(tmp_path / "out", {})
    done = worker.store(tmp_path / "out", (Shard(0, 0, 1), [SourceRow(1, ("a",))]))
    journal.add(done)
    kinds = [name.split(".")[1] if name.startswith(".") else name for name in synced]
    assert kinds == ["_shards", "out", "part-000000", "out", "journal"]


def test_what_a_kill_left_half_written_is_cleared_away(
    texts: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    left = [".part-000001.parquet.abc.parquet", "._job.json.abc.json", "_skipped.jsonl"]
    for name in left:
        (tmp_path / "out" / name).write_text("half")
    job(texts, tmp_path / "out", model=model)
    assert not {path.name for path in (tmp_path / "out").iterdir()} & set(left)


# options of tertium.load


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "nonsense"}, "No engine 'nonsense'"),
        ({"engine": "onnx", "device": "cuda"}, "runs on the CPU, not on cuda"),
    ],
)
def test_an_engine_that_cannot_run_is_refused_before_anything_is_read(
    texts: Path, model: Path, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TertiumError, match=said):
        job(texts, tmp_path / "out", model=model, **options)
    assert not (tmp_path / "out").exists()


def test_an_engine_without_its_packages_is_refused_before_anything_is_read(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import find_spec

    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "openvino" else find_spec(name)
    )
    with pytest.raises(TertiumError, match=r"pip install 'tertium\[fast\]'"):
        job(texts, tmp_path / "out", model=model, engine="openvino")
    assert not (tmp_path / "out").exists()
