"""Jobs that an engine runs, on a tiny model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium.engines import PartPlan
from tertium.engines.export import ensure
from tertium.engines.graphs import graphs_of
from tertium.engines.plan import apply, plan
from tertium.engines.tuning import Trial, remember
from tertium.errors import TertiumError, TertiumWarning
from tertium.jobs import encode_file, read_vectors
from tertium.jobs.request import Finished
from tertium.types import EngineName, Kind
from tests.fakes import tiny_model
from tests.jobs.conftest import TEXTS
from tests.jobs.stubs import FAST, contents

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
TRIAL = Trial(
    engine=EngineName.ONNX, threads=1, token_budget=96, texts_per_second=1.0, measured="now"
)


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer: its exports, which the tests of a process share, take less time."""
    return tiny_model(tmp_path_factory.mktemp("flat") / "bulk-bert", layers=1)


def encoded(texts: Path, folder: Path, model: Path, engine: str) -> Finished:
    return encode_file(
        texts,
        folder,
        model=str(model),
        shard_rows=10,
        execution=FAST,
        progress=False,
        engine=engine,
    )


def engines(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "_job.json").read_text())["engines"]
    return found


def export(model: Path, engine: EngineName, **options: Any) -> None:
    (graph,) = graphs_of(tertium.load(model))
    ensure(graph, engine, **options)


def test_a_job_goes_on_with_the_export_it_was_begun_with(
    texts: Path, flat: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(flat, EngineName.ONNX_INT8, keep_float=0)
    assert encoded(texts, out, flat, "onnx-int8").made == 4
    before = contents(out)
    (noted,) = engines(out)
    assert noted["engine"] == "onnx-int8" and noted["settings"]["keep_float"] == 0
    (out / "part-000001.parquet").unlink()
    assert encoded(texts, out, flat, "onnx-int8").made == 1
    assert contents(out) == before
    (out / "part-000001.parquet").unlink()
    export(flat, EngineName.ONNX_INT8, keep_float=1)
    with pytest.raises(TertiumError, match=r"is not the one.*keep_float 0,.*now keep_float 1,"):
        encoded(texts, out, flat, "onnx-int8")
    export(flat, EngineName.ONNX_INT8, keep_float=0)
    assert encoded(texts, out, flat, "onnx-int8").made == 1
    assert contents(out) == before


def test_a_worker_refuses_another_export(flat: Path) -> None:
    model = tertium.load(flat)
    (chosen,) = plan(model, EngineName.ONNX, folder=flat)
    assert apply(model, [chosen], folder=flat, threads=1) is model
    other = chosen.model_copy(update={"export": "0" * 64})
    with pytest.raises(TertiumError, match="copy the same export to every machine"):
        apply(model, [other], folder=flat, threads=1)


def test_a_job_that_did_not_note_its_export_is_not_gone_on_with(
    texts: Path, flat: Path, tmp_path: Path
) -> None:
    encoded(texts, tmp_path / "o", flat, "onnx")
    path = tmp_path / "o" / "_job.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "engines": []}))
    with pytest.raises(TertiumError, match="does not record which export"):
        encoded(texts, tmp_path / "o", flat, "onnx")


def test_auto_is_settled_once(texts: Path, flat: Path, tmp_path: Path) -> None:
    (graph,) = graphs_of(tertium.load(flat))
    remember(graph.fingerprint, TRIAL)
    encoded(texts, tmp_path / "out", flat, "auto")
    before = contents(tmp_path / "out")
    (noted,) = engines(tmp_path / "out")
    assert (noted["engine"], noted["token_budget"]) == ("onnx", 96)
    expected = tertium.load(flat, engine="onnx").encode(TEXTS)
    np.testing.assert_allclose(read_vectors(tmp_path / "out"), expected, atol=1e-6)
    remember(graph.fingerprint, TRIAL.model_copy(update={"engine": EngineName.TORCH}))
    (tmp_path / "out" / "part-000002.parquet").unlink()
    assert encoded(texts, tmp_path / "out", flat, "auto").made == 1
    assert contents(tmp_path / "out") == before
    encoded(texts, tmp_path / "torch", flat, "auto")
    (noted,) = engines(tmp_path / "torch")
    assert (noted["engine"], noted["export"]) == ("torch", None)


def test_auto_without_tuning_is_onnx_where_integers_are_slow(
    texts: Path, flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tertium.engines.plan.fast_integers", lambda: False)
    encoded(texts, tmp_path / "out", flat, "auto")
    assert [entry["engine"] for entry in engines(tmp_path / "out")] == ["onnx"]
    expected = tertium.load(flat, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(read_vectors(tmp_path / "out"), expected, atol=1e-6)


def test_auto_takes_torch_where_the_engine_does_not_run(
    flat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tertium.load(flat)
    (graph,) = graphs_of(model)
    remember(graph.fingerprint, TRIAL)

    def refuse(*arguments: Any, **options: Any) -> None:
        raise TertiumError("it is broken.")

    monkeypatch.setattr("tertium.engines.plan.check_engine", refuse)
    with pytest.warns(TertiumWarning, match="runs on torch, not onnx: it is broken"):
        chosen = plan(model, EngineName.AUTO, folder=flat)
    assert chosen == (PartPlan(engine=EngineName.TORCH),)


def test_a_static_copy(flat: Path) -> None:
    model = tertium.load(flat)
    (chosen,) = plan(model, EngineName.STATIC, folder=flat)
    static = apply(model, [chosen], folder=flat, threads=1)
    assert static.kind is Kind.STATIC
    with pytest.raises(TertiumError, match="is not the one that the job was started with"):
        apply(model, [chosen.model_copy(update={"export": "0"})], folder=flat, threads=1)
    for engine in (EngineName.STATIC, EngineName.AUTO):  # what is static stays as it is
        (own,) = plan(static, engine, folder=flat)
        assert own.export is None
        assert apply(static, [own], folder=flat, threads=1) is static
