from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.engines import ENGINES, engine_name, tuning
from tertium.engines.export import Export, ensure, export
from tertium.engines.graphs import PartGraph, graphs_of
from tertium.engines.settle import LONG, main, settling
from tertium.engines.static import distil_static
from tertium.engines.tuning import Trial, remember, remembered, tune
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Encoder
from tertium.types import Engine, EngineName, Kind
from tests.engines.models import encoder, light, write

pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")

TEXTS = ["the cat sleeps .", "a dog barks"]
TRIAL = Trial(
    engine=EngineName.ONNX,
    threads=1,
    token_budget=77,
    texts_per_second=1.0,
    measured="2026-11-16T06:00:00Z",
)


def test_names() -> None:
    assert {*ENGINES, EngineName.AUTO, EngineName.DEFAULT} == set(EngineName)
    with pytest.raises(TertiumError, match=r"No engine 'onx'\. Did you mean 'onnx'\?"):
        engine_name("onx")


def test_an_unknown_engine(flat_bert: Path) -> None:
    with pytest.raises(TertiumError, match=r"No engine 'openvno'\. Did you mean 'openvino'\?"):
        tertium.load(flat_bert, engine="openvno")


def test_engines_run_on_the_processor(flat_bert: Path) -> None:
    with pytest.raises(TertiumError, match="runs on the CPU, not on cuda"):
        tertium.load(flat_bert, engine="onnx", device="cuda")


def test_no_torch_is_the_default(flat_bert: Path) -> None:
    model = light(flat_bert)
    assert model.engine is not None and model.engine.name == "onnx"
    assert encoder(flat_bert, engine="torch").engine is None


def test_what_an_engine_is(flat_bert: Path) -> None:
    model = light(flat_bert, engine="onnx", threads=1)
    assert isinstance(model.engine, Engine) and model.engine.name == "onnx"
    assert model.device.type == "cpu"
    pooled = model.with_pooling("cls")  # type: ignore[arg-type]
    assert pooled.engine is None and model.copy().engine is None  # their graph is another one
    np.testing.assert_allclose(
        model.score([("a", "b")]), model.copy().score([("a", "b")]), atol=1e-5
    )


@pytest.mark.parametrize(("fast", "chosen"), [(True, "onnx-int8"), (False, "onnx")])
def test_auto_without_tuning_is_what_the_processor_suggests(
    fast: bool, chosen: str, flat_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tertium.engines.plan.fast_integers", lambda: fast)
    model = light(flat_bert, engine="auto")
    assert model.engine is not None and model.engine.name == chosen


def test_auto_is_float_where_8_bit_is_refused(
    flat_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(graph: PartGraph, engine: EngineName, **options: object) -> Export:
        if engine is EngineName.ONNX_INT8:
            raise TertiumError("too far from torch")
        return ensure(graph, engine, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("tertium.engines.plan.fast_integers", lambda: True)
    monkeypatch.setattr("tertium.engines.plan.ensure", refuse)
    model = light(flat_bert, engine="auto")
    assert model.engine is not None and model.engine.name == "onnx"


def test_beside_a_long_job_auto_is_measured(flat: Encoder, flat_bert: Path) -> None:
    (graph,) = graphs_of(light(flat_bert))
    with settling(str(flat_bert), {}, rows=LONG - 1):
        pass
    assert remembered(graph.fingerprint) is None  # not worth it
    main(str(flat_bert), {})  # what the child process runs
    found = remembered(graph.fingerprint)
    assert found is not None and found.engine in ("onnx", "onnx-int8")
    main(str(flat_bert), {})
    assert remembered(graph.fingerprint) == found  # once


def test_what_is_measured_ends_with_the_job(flat_bert: Path, own_cache: Path) -> None:
    with settling(str(flat_bert), {}, rows=LONG):
        pass  # the child is ended, whatever it was doing
    assert not (own_cache / "tuning.json").exists()


def test_auto_takes_what_was_remembered(flat: Encoder, flat_bert: Path) -> None:
    (graph,) = graphs_of(flat)
    remember(graph.fingerprint, TRIAL)
    assert remembered(graph.fingerprint) == TRIAL
    tuned = light(flat_bert, engine="auto")
    assert tuned.engine is not None and tuned.engine.name == "onnx"
    assert tuned.token_budget == 77
    remember(graph.fingerprint, TRIAL.model_copy(update={"engine": EngineName.TORCH}))
    model = encoder(flat_bert, engine="auto")
    assert (model.engine, model.token_budget) == (None, 77)
    np.testing.assert_allclose(model.encode(TEXTS), flat.encode(TEXTS), atol=1e-5)


def test_auto_falls_back_to_torch_where_the_engine_does_not_run(
    flat: Encoder, flat_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph,) = graphs_of(flat)
    remember(graph.fingerprint, TRIAL)

    def refuse(*args: object, **options: object) -> None:
        raise TertiumError("openvino is not installed")

    monkeypatch.setattr("tertium.engines.plan.ensure", refuse)
    with pytest.warns(TertiumWarning, match=r"flat-bert runs on torch, not onnx: openvino is not"):
        assert encoder(flat_bert, engine="auto").engine is None


def test_auto_falls_back_to_torch_where_the_engine_does_not_start(
    flat: Encoder, flat_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph,) = graphs_of(flat)
    remember(graph.fingerprint, TRIAL)

    def refuse(*args: object, **options: object) -> None:
        raise TertiumError("it already runs in this process without the cap")

    monkeypatch.setattr("tertium.engines.plan.open_engine", refuse)
    with pytest.warns(TertiumWarning, match=r"runs on torch.*: it already runs"):
        assert encoder(flat_bert, engine="auto").engine is None
    with pytest.raises(TertiumError, match="it already runs"):
        encoder(flat_bert, engine="onnx")


def test_auto_leaves_a_static_model_as_it_is(flat: Encoder, tmp_path: Path) -> None:
    distil_static(flat, dimensions=8).save(tmp_path / "static")
    model = tertium.load(tmp_path / "static", engine="auto")
    assert model.kind is Kind.STATIC


def test_damaged_memories_are_none(flat: Encoder, own_cache: Path) -> None:
    (graph,) = graphs_of(flat)
    own_cache.mkdir()
    (own_cache / "tuning.json").write_text("[")
    assert remembered(graph.fingerprint) is None


def test_tuning_measures_and_remembers(flat: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    (graph,) = graphs_of(flat)
    trials = tune(graph, seconds=0.2, texts=TEXTS, exact=True, progress=False)
    rates = [trial.texts_per_second for trial in trials]
    assert rates[:10] == sorted(rates[:10], reverse=True) and min(rates) > 0
    ways = {(trial.engine, trial.threads) for trial in trials}
    assert {("torch", 2), ("onnx", 1), ("onnx", 2)} <= ways
    assert not {trial.engine for trial in trials} & {EngineName.ONNX_INT8, EngineName.STATIC}
    assert len({trial.token_budget for trial in trials}) == 5
    assert remembered(graph.fingerprint) == trials[0]
    assert (flat.engine, flat.token_budget) == (None, None)  # as before


def test_finalists_are_compared_at_the_same_pace(
    flat: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (graph,) = graphs_of(flat)
    asked: list[tuple[str, int | None]] = []

    def rate(graph: PartGraph, texts: list[str], seconds: float) -> float:
        engine = "torch" if flat.engine is None else "graph"
        asked.append((engine, flat.token_budget))
        true = {"torch": 100, "graph": 90}[engine] + (flat.token_budget == 512)
        slow = asked.count(asked[-1])  # every time it is asked, the machine is slower
        return true / slow

    monkeypatch.setattr(tuning, "_rate", rate)
    monkeypatch.setattr(tuning, "_installed", lambda: [EngineName.TORCH, EngineName.ONNX])
    monkeypatch.setattr(tuning, "_thread_counts", lambda engine: [1])
    trials = tune(graph, seconds=1.0, texts=TEXTS, progress=False)
    assert (trials[0].engine, trials[0].token_budget) == (EngineName.TORCH, 512)
    assert remembered(graph.fingerprint) == trials[0]
    finals = asked[2:]
    assert finals[:10] == finals[10:20] == finals[20:] and len(set(finals)) == 10
    unfair = next(trial for trial in trials if trial.token_budget == 1024)
    assert unfair.texts_per_second == 50  # not the 100 of the first round


def test_tuning_leaves_out_what_is_refused(flat: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    (graph,) = graphs_of(flat)
    whole = tuning.ensure

    def ensure(graph: PartGraph, engine: EngineName) -> Export:
        if engine is EngineName.OPENVINO:
            raise TertiumError("too far from torch")
        return whole(graph, engine)

    monkeypatch.setattr(tuning, "ensure", ensure)
    with pytest.warns(TertiumWarning, match="Skipping openvino: too far from torch"):
        trials = tune(graph, seconds=0.2, texts=TEXTS, exact=True, progress=False)
    assert {trial.engine for trial in trials} == {EngineName.TORCH, EngineName.ONNX}


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_tuning_needs_time(seconds: float, flat: Encoder) -> None:
    (graph,) = graphs_of(flat)
    with pytest.raises(TertiumError, match="must be positive and finite"):
        tune(graph, seconds=seconds)


def test_tuning_needs_texts(flat: Encoder) -> None:
    (graph,) = graphs_of(flat)
    with pytest.raises(TertiumError, match="no texts"):
        tune(graph, texts=[])


@pytest.mark.integration
@pytest.mark.parametrize(
    "kind",
    ["mean", "pair", *(pytest.param(k, marks=pytest.mark.long) for k in ("ensemble", "average"))],
)
def test_a_model_saved_with_its_exports(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = write(kind, tmp_path), tmp_path / "cache"
    made = export(tertium.load(source), "onnx", output=tmp_path / "out")
    assert all(part.folder.is_relative_to(tmp_path / "out") for part in made)
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("TERTIUM_CACHE", str(cache))
    model = tertium.load(moved, engine="onnx")
    assert not list(cache.rglob("*.onnx"))  # nothing had to be made
    assert all(graph.part.engine is not None for graph in graphs_of(model))
    with pytest.raises(TertiumError, match="not empty"):
        export(tertium.load(source), "onnx", output=moved)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_what_cannot_be_exported(engine: str, flat: Encoder) -> None:
    with pytest.raises(TertiumError, match=r"nothing to export.*onnx, onnx-int8, openvino"):
        export(flat, engine)


def test_only_int8_keeps_layers_in_float(flat: Encoder) -> None:
    with pytest.raises(TertiumError, match="keep_float applies only to int8"):
        export(flat, "openvino", keep_float=2)


def test_a_prompt_outside_the_pooling(flat_bert: Path, tmp_path: Path) -> None:
    model = encoder(flat_bert)
    model.model[1].include_prompt = False  # type: ignore[assignment]
    model.save(tmp_path / "model")
    texts = ["a", "the cat sleeps .", ""]
    expected = model.encode(texts, prompt="b c ")
    found = light(tmp_path / "model").encode(texts, prompt="b c ")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - light(flat_bert).encode(texts, prompt="b c ")).max() > 1e-3
