"""A disk that is really full: a server goes on, and jobs end with a sentence and go on later."""

import itertools
import os
import signal
import subprocess
from pathlib import Path
from string import ascii_lowercase

import pytest

from tertium.data.shards import read_vectors
from tests.attack.client import ask, embed
from tests.attack.test_folders import sentence, tertium
from tests.serve.process import started
from tests.test_files import small_disk

__all__ = ["small_disk"]  # the fixture: a file system of one megabyte

ROWS = 12_000  # vectors of 32 numbers: one and a half megabytes


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "texts.txt"
    rows = itertools.islice(itertools.product(ascii_lowercase, repeat=3), ROWS)
    file.write_text("".join(f"{' '.join(row)}\n" for row in rows))
    return file


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb") as file:
        while True:
            try:
                os.write(file.fileno(), b"x" * 4096)
            except OSError:
                return


def test_a_server_without_space_goes_on_answering(small_disk: Path) -> None:
    """Its log and its cache are on the full disk."""
    log = small_disk / "log"
    places = dict.fromkeys(("TERTIUM_CACHE", "XDG_CACHE_HOME"), str(small_disk))
    with started(model="hash", log=log, env={**os.environ, **places}, access_log=True) as site:
        fill(small_disk)
        for number in range(50):
            assert embed(site, f"a cat {number}").status == 200
        assert ask(site, "/v1/embeddings", b"{").code == "invalid_json"
        assert embed(site, "fail").code == "failed"
        for worker in site.workers():
            os.kill(worker, signal.SIGKILL)
        assert embed(site, "a cat").status == 200


@pytest.mark.parametrize("output", ["vectors.npy", "vectors.parquet"])
def test_a_file_that_does_not_fit_leaves_nothing(
    small_disk: Path, texts: Path, tiny_bert: Path, output: str
) -> None:
    said = sentence("encode", texts, "-o", small_disk / output, "-m", tiny_bert)
    assert "no space left" in said and str(small_disk) in said
    assert list(small_disk.iterdir()) == []


def test_a_job_that_runs_out_of_space_goes_on_when_there_is_some(
    small_disk: Path, texts: Path, tiny_bert: Path
) -> None:
    job = ("encode", texts, "-o", f"{small_disk}/vectors/", "-m", tiny_bert, "--workers", 1)
    job = (*job, "--shard-rows", 2000)
    ran = tertium(*job)
    assert ran.returncode not in (0, 1) and ran.returncode > 0, ran
    assert "space" in ran.stderr and "Traceback" not in ran.stderr
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    ran = tertium(*job)
    assert ran.returncode == 0, ran
    assert read_vectors(small_disk / "vectors").shape == (ROWS, 32)


def test_an_index_that_does_not_fit_leaves_none(
    small_disk: Path, texts: Path, tiny_bert: Path
) -> None:
    said = sentence("index", "build", texts, "-o", small_disk / "index", "-m", tiny_bert)
    assert "no space left" in said
    assert not (small_disk / "index").exists()
