import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tertium.data.shards import Content, Shard
from tertium.errors import MissingExtraError, TertiumError
from tertium.jobs import cluster
from tertium.jobs.request import Execution, hash_model_files
from tertium.jobs.source import SourceRow
from tertium.jobs.work import Work
from tests.conftest import ROOT
from tests.jobs.stubs import LOADER, job

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "tests"}  # or Ray keeps one at home


@pytest.mark.long
@pytest.mark.integration
def test_a_job_on_ray_survives_the_loss_of_an_actor(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs tertium[cluster]")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.jobs.on_ray", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **TOKEN},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.pop("found") == "text 7"  # an index of the shards
    assert found == {"killed": True, "rows": 41, "shards": 11, "same": True}


def test_ray_is_asked_for_by_its_extra(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import find_spec

    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "ray" else find_spec(name)
    )
    with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[cluster\]'"):
        job(texts, tmp_path / "out", model=model, execution=Execution(cluster="ray"))
    assert not (tmp_path / "out").exists()


def test_what_an_actor_raises_is_told_as_a_sentence_if_it_is_one() -> None:
    told = cluster._cause(SimpleNamespace(cause=TertiumError("no such model")))
    assert isinstance(told, TertiumError) and str(told) == "no such model"
    assert isinstance(cluster._cause(SimpleNamespace(cause=KeyError("x"))), RuntimeError)


def test_an_actor_refuses_another_model(model: Path) -> None:
    work = Work(Content.TEXTS, str(model), loader=LOADER)
    actor = cluster._Actor(work, hash_model_files(str(model)))
    (model / "config.json").write_text('{"other": 1}')
    with pytest.raises(TertiumError, match="is not the one that the job was started with"):
        actor.pack(Shard(0, 0, 1), [SourceRow(1, ("a",))])
