"""Exports in the cache: made once, whole, checked, and made again when they are damaged."""

import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import tertium
from tertium.engines.export import RECORD, Export, ensure
from tertium.engines.graphs import EncoderGraph, graphs_of
from tertium.errors import MissingExtraError, TertiumError, TertiumWarning
from tertium.models import Encoder
from tertium.types import EngineName
from tests.engines.models import encoder, light

pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")


def made(flat: Encoder, engine: str = "onnx", **options: int) -> Export:
    return ensure(EncoderGraph(flat), EngineName(engine), **options)  # type: ignore[arg-type]


def mark(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_an_export_is_made_once(flat: Encoder) -> None:
    first = made(flat)
    before = mark(first.folder / "model.onnx")
    assert made(flat) == first and mark(first.folder / "model.onnx") == before
    record = json.loads((first.folder / RECORD).read_text())
    assert record["engine"] == "onnx" and set(record["files"]) == {"model.onnx"}
    assert record["parity"]["worst"] > 0.99999


@pytest.mark.usefixtures("own_cache")
def test_weights_of_a_large_graph_are_a_file_of_their_own(
    flat: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tertium.engines.graphs._MAPPED", 1)
    found = made(flat)
    assert set(found.record.files) == {"model.onnx", "model.onnx_data"}
    assert found.record.parity is not None and found.record.parity.worst > 0.99999
    modes = {(found.folder / name).stat().st_mode for name in found.record.files}
    assert len(modes) == 1
    assert set(made(flat, "onnx-int8").record.files) == {"model.onnx"}


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_an_export_that_is_there_writes_nothing(
    flat: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of a container is read-only; what it lacks is made elsewhere, aloud."""
    first = made(flat)

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("tertium.engines.export.lock", refuse)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refuse)
        assert made(flat) == first
        with (
            pytest.warns(TertiumWarning, match="is not writable"),
            pytest.raises(PermissionError),
        ):
            made(flat, "onnx-int8")
    Path(os.environ["TERTIUM_CACHE"]).rmdir()  # the temporary one


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_a_graph_that_does_not_run(flat: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EncoderGraph, "write", lambda self, path: path.write_bytes(b"no graph"))
    with pytest.raises(TertiumError, match=r"for onnx does not run: .* Use torch"):
        made(flat)


@pytest.mark.usefixtures("own_cache", "quick_export")
@pytest.mark.parametrize("how", ["cut", "changed", "gone", "record"])
def test_a_damaged_export_is_found_and_made_again(how: str, flat: Encoder) -> None:
    export = made(flat)
    graph = export.folder / "model.onnx"
    whole = graph.read_bytes()
    if how == "cut":
        os.truncate(graph, len(whole) // 2)
    elif how == "changed":
        middle = len(whole) // 2
        graph.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    elif how == "gone":
        graph.unlink()
    else:
        (export.folder / RECORD).write_text("{")
    says = {"cut": "bytes instead of", "changed": "sha256", "gone": "missing", "record": "be read"}
    with pytest.warns(TertiumWarning, match=f"{says[how]}.*not used"):
        again = made(flat)
    assert again.record == export.record and graph.read_bytes() == whole
    found = tertium.load(str(flat.source), engine="onnx").encode(["a b c"])  # type: ignore[union-attr]
    np.testing.assert_allclose(found, flat.encode(["a b c"]), atol=1e-5)


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_one_of_another_format_is_made_again(flat: Encoder) -> None:
    export = made(flat)
    content = json.loads((export.folder / RECORD).read_text())
    (export.folder / RECORD).write_text(json.dumps({**content, "format": 0}))
    assert made(flat).record == export.record


def test_other_weights_are_another_model(flat: Encoder, flat_bert: Path) -> None:
    first = EncoderGraph(flat).fingerprint
    assert EncoderGraph(encoder(flat_bert)).fingerprint == first
    assert EncoderGraph(encoder(flat_bert, max_length=9)).fingerprint == first
    assert EncoderGraph(encoder(flat_bert, pooling="cls")).fingerprint != first
    mix = encoder(flat_bert, pooling="mean_first_last")
    assert EncoderGraph(mix).fingerprint != first
    mix.encode("a")  # which shows all layers
    assert EncoderGraph(flat).fingerprint == first
    with torch.no_grad():
        next(iter(flat.model.parameters()))[0] += 1
    assert EncoderGraph(flat).fingerprint != first


@pytest.mark.parametrize("engine", ["onnx", "onnx-int8"])
def test_a_broken_graph_is_refused(
    engine: str,
    flat: Encoder,
    flat_graph: bytes,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right in shape, wrong in its numbers: as if the exporter had dropped something."""
    import onnx

    def write(self: EncoderGraph, path: Path) -> None:
        model = onnx.load_from_string(flat_graph)
        weight = next(i for i in model.graph.initializer if len(i.dims) == 2 and i.dims[0] == 32)
        values = np.array(onnx.numpy_helper.to_array(weight))
        values[:, :4] = 0
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
        onnx.save(model, str(path))

    monkeypatch.setattr(EncoderGraph, "write", write)
    with pytest.raises(TertiumError, match=r"is refused: cosine to torch 0\.\d+ at worst"):
        made(flat, engine)
    assert flat.engine is None
    assert not list(own_cache.rglob("*.onnx")) and not list(own_cache.rglob(RECORD))


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_layers_that_stay_in_float(flat: Encoder) -> None:
    none = made(flat, "onnx-int8")
    some = made(flat, "onnx-int8", keep_float=2)
    assert some.record.size > none.record.size
    assert (none.record.settings["keep_float"], some.record.settings["keep_float"]) == (0, 2)
    assert made(flat, "onnx-int8") == some  # what was chosen last stays
    before, after = none.record.parity, some.record.parity
    assert before is not None and after is not None and after.mean > before.mean


@pytest.mark.usefixtures("own_cache", "quick_export")
def test_a_text_does_not_depend_on_its_company(flat_bert: Path) -> None:
    for engine in ("onnx", "onnx-int8"):
        model = light(flat_bert, engine=engine)
        texts = ["the cat sleeps .", "a", "a b c d e f g h i j k l", ""]
        together = model.encode(texts)
        for text, vector in zip(texts, together, strict=True):
            np.testing.assert_allclose(model.encode(text), vector, atol=1e-5)
        few = model.encode(texts, token_budget=1)
        np.testing.assert_allclose(few, together, atol=1e-5)


def race(folder: Path, cache: Path, start: "multiprocessing.synchronize.Barrier") -> None:
    """One of several processes that want the same export at once."""
    os.environ["TERTIUM_CACHE"] = str(cache)
    graph = graphs_of(tertium.load(folder))[0]
    _ = graph.fingerprint
    start.wait(120)
    ensure(graph, EngineName.ONNX)
    with (cache / f"done-{os.getpid()}").open("w") as stream:
        stream.write(str(mark(next(cache.rglob("model.onnx")))))


@pytest.mark.integration
@pytest.mark.long
def test_two_exporters_at_once(flat_bert: Path, own_cache: Path) -> None:
    own_cache.mkdir()
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    racers = [context.Process(target=race, args=(flat_bert, own_cache, start)) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(300)
    assert [racer.exitcode for racer in racers] == [0, 0]
    marks = {path.read_text() for path in own_cache.glob("done-*")}
    assert len(marks) == 1 and len(list(own_cache.glob("done-*"))) == 2  # one made it for both
    assert len(list(own_cache.rglob("model.onnx"))) == 1


def test_a_missing_package(flat: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[fast\]'"):
        tertium.load(str(flat.source), engine="onnx")
