"""Engines that do not survive on this processor, as every way to use one meets them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.engines import PartPlan, check, tuning
from tertium.engines.check import check_engine, engine_states, open_engine
from tertium.engines.export import ensure, export
from tertium.engines.graphs import EncoderGraph, graphs_of
from tertium.engines.plan import apply, plan
from tertium.engines.tuning import Trial, remember, tune
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Encoder
from tertium.probe import BELOW_AMX, VARIABLE
from tertium.types import EngineName
from tests.engines.models import encoder, write
from tests.probes import CHILDREN

pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
pytest.importorskip("openvino", reason="the extra 'fast' is not installed")
pytestmark = pytest.mark.usefixtures("unprobed", "quick_export")

Behave = Callable[..., None]
TRIAL = Trial(
    engine=EngineName.ONNX_INT8, threads=1, token_budget=77, texts_per_second=1.0, measured="now"
)


@pytest.fixture
def behave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behave:
    """Replace the first run of ONNX Runtime and of OpenVINO by a child of some behaviour."""

    def replace(onnxruntime: str = "fine", openvino: str = "fine") -> None:
        path = tmp_path / "first_run.py"
        path.write_text(
            "import os, pathlib, signal, sys, time\n"
            "reply = pathlib.Path(sys.argv[-1]) / 'reply.json'\n"
            f"if sys.argv[1] == 'openvino': {CHILDREN[openvino]}\n"
            f"else: {CHILDREN[onnxruntime]}\n"
        )
        monkeypatch.setattr(check, "FIRST_RUN", path)

    return replace


def test_the_sentence(flat_bert: Path, behave: Behave) -> None:
    behave(openvino="ill")
    said = (
        r"^openvino-int8 does not run on this processor \(Illegal instruction\); use onnx-int8\.$"
    )
    for _ in range(2):  # found out, then looked up
        with pytest.raises(TertiumError, match=said):
            tertium.load(flat_bert, engine="openvino-int8")
    with pytest.raises(TertiumError, match=r"^openvino does not run .*; use onnx\.$"):
        tertium.load(flat_bert, engine="openvino")


def test_the_next_that_runs_is_named(flat: Encoder, behave: Behave) -> None:
    behave()
    ensure(EncoderGraph(flat), EngineName.ONNX)
    behave("segv", "segv")
    fault = r"does not run on this processor \(Segmentation fault\)"
    with pytest.raises(TertiumError, match=rf"^onnx-int8 {fault}; use onnx\.$"):
        export(flat, "onnx-int8")
    with pytest.raises(TertiumError, match=rf"^openvino-int8 {fault}; use onnx\.$"):
        export(flat, "openvino-int8")
    assert engine_states() == {
        "onnx": "runs",
        "onnx-int8": "does not run: Segmentation fault",
        "openvino": "not tried yet",
        "openvino-int8": "does not run: Segmentation fault",
    }


def test_torch_where_nothing_else_runs(flat: Encoder, behave: Behave) -> None:
    behave("ill", "ill")
    with pytest.raises(TertiumError, match=r"^onnx does not run .*; use torch\.$"):
        export(flat, "onnx")
    assert flat.engine is None


def test_measuring_layers_is_no_way_around(
    flat: Encoder, behave: Behave, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave()
    ensure(EncoderGraph(flat), EngineName.ONNX)
    behave("ill")

    def never(*arguments: object) -> None:
        raise AssertionError("a product ran in integers here")

    monkeypatch.setattr("tertium.engines.int8._outputs", never)
    with pytest.raises(TertiumError, match="onnx-int8 does not run on this processor"):
        ensure(EncoderGraph(flat), EngineName.ONNX_INT8, keep_float=1)


def test_an_export_made_elsewhere_is_tried_here(
    flat: Encoder, behave: Behave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave()
    export(flat, "onnx", output=tmp_path / "out")
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "another machine"))
    monkeypatch.setattr("tertium.probe._tried", {})
    behave("ill")
    with pytest.raises(TertiumError, match="onnx does not run on this processor"):
        tertium.load(tmp_path / "out", engine="onnx")


def test_tuning_leaves_out_what_does_not_run(
    flat: Encoder, behave: Behave, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(openvino="ill")
    monkeypatch.setattr(tuning, "_rate", lambda *arguments: 1.0)
    with pytest.warns(TertiumWarning) as caught:
        trials = tune(EncoderGraph(flat), seconds=1.0, texts=["a b"], progress=False)
    assert {trial.engine for trial in trials} == {"torch", "onnx", "onnx-int8"}
    said = {str(warning.message) for warning in caught}
    assert (
        "Skipping openvino-int8: openvino-int8 does not run on this processor (Illegal "
        "instruction); use onnx-int8." in said
    )


def test_auto_takes_torch_and_says_why(flat: Encoder, flat_bert: Path, behave: Behave) -> None:
    behave()
    graph = EncoderGraph(flat)
    ensure(graph, EngineName.ONNX)
    remember(graph.fingerprint, TRIAL)
    behave("ill")
    said = r"runs on torch, not onnx-int8: onnx-int8 does not run .* \(Illegal instruction\)"
    with pytest.warns(TertiumWarning, match=said):
        assert encoder(flat_bert, engine="auto").engine is None
    with pytest.warns(TertiumWarning, match=said):
        chosen = plan(flat, EngineName.AUTO, folder=flat_bert)
    assert chosen == (PartPlan(engine=EngineName.TORCH),)


def test_a_bulk_worker_on_another_processor(
    flat: Encoder,
    flat_bert: Path,
    behave: Behave,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behave()
    chosen = plan(flat, EngineName.ONNX, folder=flat_bert)
    behave("ill")
    monkeypatch.setattr("tertium.probe.processor", lambda: "another")
    with pytest.raises(TertiumError, match="onnx does not run on this processor"):
        apply(flat, chosen, folder=flat_bert, threads=1)


def test_the_cap_is_applied_before_the_engine_starts(
    flat: Encoder, behave: Behave, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave("capped")
    seen: list[str | None] = []

    class Runtime:
        def __init__(self, name: str, path: Path, *, threads: int) -> None:
            seen.append(os.environ.get(VARIABLE))

    graph, folder = EncoderGraph(flat), _written(flat)
    monkeypatch.setitem(check.RUNTIMES, "onnxruntime", Runtime)  # type: ignore[arg-type]
    open_engine(graph, EngineName.ONNX, folder, threads=1)
    assert seen == [BELOW_AMX]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("amx", [True, False])
def test_floats_leave_integers_the_choice(
    known: bool, amx: bool, flat: Encoder, behave: Behave, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO reads the cap once: it begins with it unless AMX is known to run."""
    behave()
    graph, folder = EncoderGraph(flat), _written(flat)
    able = frozenset({"amxint8"} if amx else ())
    monkeypatch.setattr(check, "instructions", lambda: able)
    monkeypatch.setitem(check.RUNTIMES, "openvino", lambda *a, **o: None)  # type: ignore[arg-type]
    if known:
        check_engine(graph, EngineName.OPENVINO_INT8, folder)
    open_engine(graph, EngineName.OPENVINO, folder, threads=1)
    assert os.environ.get(VARIABLE) == (BELOW_AMX if amx and not known else None)


def test_a_hang_ends(flat: Encoder, behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    behave("hang")
    monkeypatch.setattr("tertium.probe._SECONDS", 0.5)
    with pytest.raises(TertiumError, match=r"onnx does not run .*no answer within 0\.5 seconds"):
        check_engine(EncoderGraph(flat), EngineName.ONNX, _written(flat))


def test_the_first_run_loads_neither_torch_nor_tertium() -> None:
    script = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print({'torch', 'tertium'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", script, str(check.FIRST_RUN)]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "set()"


@pytest.mark.parametrize("kind", ["mean", "cross", "tri"])
def test_samples_have_several_shapes(kind: str, tmp_path: Path) -> None:
    (graph,) = graphs_of(tertium.load(write(kind, tmp_path)))  # type: ignore[arg-type]
    found = graph.samples()
    assert len({batch["input_ids"].shape for batch in found}) == 3
    for batch in found:
        assert len({array.shape for array in batch.values()}) == 1
        assert all(array.dtype == np.int64 for array in batch.values())


@pytest.mark.integration
def test_the_server_ends_with_the_sentence(
    flat: Encoder, flat_bert: Path, behave: Behave, tmp_path: Path
) -> None:
    """What one process found out, another looks up."""
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    behave("ill")
    with pytest.raises(TertiumError, match="onnx does not run on this processor"):
        export(flat, "onnx")
    command = [sys.executable, "-m", "tertium", "serve", "--port", "0", "--engine", "onnx"]
    command += ["--model", str(flat_bert), "--conditional-model", "none"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 2, ran.stderr
    said = ran.stderr.splitlines()[-1]
    assert "onnx does not run on this processor (Illegal instruction); use torch." in said


def _written(model: Encoder) -> Path:
    """A folder with the model's graph, which nothing has run."""
    assert model.source is not None
    folder = Path(os.environ["TERTIUM_CACHE"]) / "written"
    folder.mkdir(parents=True)
    EncoderGraph(model).write(folder / check.GRAPH)
    return folder
