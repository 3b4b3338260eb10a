"""``encode`` and ``score`` into folders."""

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.data import samples
from tertium.jobs import iter_scores, read_vectors
from tests.cli.conftest import Run
from tests.forking import fork_command, wait_until
from tests.jobs.stubs import contents

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers at once: a tiny model on one thread survives a fork."""
    monkeypatch.setattr("tertium.jobs.workers.START_METHOD", "fork")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"the cat {chr(97 + at % 26)}\n" for at in range(60)))
    return path


@pytest.mark.integration
def test_encode_into_a_folder(run: Run, tiny_bert: Path, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "vectors.2026"  # the slash makes it a folder
    command = ("encode", texts, "-o", f"{output}/", "-m", tiny_bert, "--shard-rows", 25)
    ran = run(*command, "--workers", 1, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "output": str(output),
        "rows": 60,
        "dimension": 32,
        "shards": 3,
        "made": 3,
        "skipped": 0,
    }
    expected = tertium.load(tiny_bert).encode(texts.read_text().splitlines())
    np.testing.assert_allclose(read_vectors(output), expected, atol=1e-6)
    again = run(*command)
    assert "60 vectors of width 32 in 3 shards; 3 of them existed already" in again.err


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("flags", [[], ["--on-error", "skip-and-log"]])
def test_score_into_a_folder(run: Run, tiny_bert: Path, tmp_path: Path, flags: list[str]) -> None:
    output = tmp_path / "scores"
    ran = run(
        "score", samples.PAIRS, "-o", output, "-m", tiny_bert, "--workers", 2, "--json", *flags
    )
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    assert answer["scale"] == [-1.0, 1.0] and answer["shards"] == 1
    pairs = [(row.sentence1, row.sentence2) for row in samples.sample_pairs()]
    (block,) = iter_scores(output)
    assert block.texts == pairs
    np.testing.assert_allclose(block.scores, tertium.load(tiny_bert).score(pairs), atol=1e-6)


@pytest.mark.usefixtures("forked")
def test_skipped_rows_are_counted_and_cut_texts_told(
    run: Run, tiny_bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(b"the cat\n\xff\n" + b"the cat " * 100 + b"\n")
    output = tmp_path / "out"
    ran = run(
        *("encode", tmp_path / "in.txt", "-o", output, "-m", tiny_bert),
        *("--on-error", "skip-and-log", "--dtype", "float16", "--threads", 1),
    )
    assert ran.code == 0, ran.err
    assert "1 of 2 distinct texts had more than 64 tokens" in ran.err
    assert (
        f"2 vectors of width 32 in 1 shard; 1 bad row skipped, see {output}/_skipped.jsonl"
        in ran.err
    )


@pytest.mark.usefixtures("forked")
def test_conditions_are_left_out_by_a_model_that_takes_none(
    run: Run, tiny_bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.tsv").write_text("s1\ts2\tcondition\nthe cat\tthe dog\tsize\n")
    ran = run("score", tmp_path / "in.tsv", "-o", tmp_path / "out", "-m", tiny_bert)
    assert ran.code == 0
    assert "does not take conditions; the column is ignored" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["score", "texts.txt", "-o", "out.tsv", "--shard-rows", "2"],
            "--shard-rows is for an output",
        ),
        (["encode", "texts.txt", "-o", "out/", "--ray-address", "auto"], "--engine-cluster ray"),
        (["encode", ".", "-o", "out/"], ".: is a folder, not a file"),
        (["encode", "texts.txt", "-o", "out/", "--column", "body"], "column body"),
        (["score", "texts.txt", "-o", "out/"], "texts.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_user_errors_leave_nothing(
    run: Run,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt"]


def shards(folder: Path) -> int:
    return len(list(folder.glob("part-*")))


def group_is_gone(group: int) -> bool:
    for _ in range(1000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.usefixtures("forked")
@pytest.mark.skipif(os.name != "posix", reason="groups of processes and signals")
def test_interrupted_then_killed_then_whole(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    chance = random.Random(0)
    rows = [chance.choices("abcdefghijklmnopqrstuvwxyz", k=60) for _ in range(8_000)]
    texts.write_text("".join(" ".join(row) + "\n" for row in rows))  # some seconds of work
    output, whole = tmp_path / "out", tmp_path / "whole"
    command = ("encode", texts, "-m", tiny_bert, "--workers", 2, "--shard-rows", 100)
    process = fork_command(*command, "-o", output, errors=tmp_path / "errors.txt")
    wait_until(lambda: shards(output) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130, process.errors.read_text()
    told = "finished shards are kept; rerun the command to resume\n"
    assert process.errors.read_text() == told
    assert group_is_gone(process.pid)
    assert [path.name for path in output.glob(".*")] == [".lock"]
    kept = shards(output)
    process = fork_command(*command, "-o", output, errors=tmp_path / "errors.txt")
    process.kill_when(lambda: shards(output) >= kept + 2)
    assert group_is_gone(process.pid)  # workers do not outlive the one that began them
    left = shards(output)
    assert kept < left < 80
    assert run(*command, "-o", output).code == 0
    assert run(*command, "-o", whole).code == 0
    assert contents(output) == contents(whole)
