import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from tertium.objectives import MSE, SmoothK2
from tertium.objectives.base import NonFiniteLossError
from tertium.training import Schedule, TrainingModule, train_stage
from tertium.training.health import CollapseError, Measurement
from tertium.training.stage import StageTrainer, _at_least_one_evaluation, last_checkpoint
from tests.forking import fork
from tests.training.processes import by_two
from tests.training.toys import (
    HEALTHY,
    RESUMABLE,
    StoppedError,
    contrastive_module,
    distributed,
    killed,
    selection,
    stop_at,
    stopped,
    toy_examples,
    toy_module,
    toy_texts,
    weights,
)

SHORT = Schedule(max_steps=4, batch_size=8, learning_rate=1e-3, seed=1)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# training


def test_the_loss_falls_and_the_log_names_its_terms(tiny_bert: Path, tmp_path: Path) -> None:
    module = toy_module(tiny_bert, objectives={"smooth_k2": SmoothK2, "mse": MSE})
    schedule = Schedule(epochs=12, batch_size=8, learning_rate=3e-3, checkpoint_every=4)
    log = train_stage(module, toy_examples(), schedule, tmp_path)
    entries = [entry for entry in log if "loss" in entry]
    assert len(entries) == 9
    for entry in entries:
        assert entry["loss"] == pytest.approx(entry["smooth_k2"] + entry["mse"], rel=1e-4)
    assert entries[-1]["loss"] < 0.5 * entries[0]["loss"]
    assert not module.training


@pytest.mark.parametrize("bucket", [False, True])
def test_the_same_seed_gives_the_same_weights(
    tiny_bert: Path, tmp_path: Path, bucket: bool
) -> None:
    results = []
    for number, seed in enumerate([1, 1, 2]):
        torch.manual_seed(number)  # what came before must not matter
        module = toy_module(tiny_bert)
        schedule = Schedule(max_steps=3, batch_size=4, seed=seed, bucket=bucket)
        train_stage(module, toy_examples(), schedule, tmp_path / str(number))
        results.append(weights(module))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def test_two_epochs_see_the_same_examples_in_different_orders(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, ...]] = []
    original = StageTrainer.compute_loss

    def spy(self: StageTrainer, model: Any, inputs: dict[str, Tensor], *a: Any, **k: Any) -> Any:
        seen.append(tuple(inputs["input_ids"].sum(1).tolist()))
        return original(self, model, inputs, *a, **k)

    monkeypatch.setattr(StageTrainer, "compute_loss", spy)
    train_stage(toy_module(tiny_bert), toy_examples(), Schedule(epochs=2, batch_size=6), tmp_path)
    assert len(seen) == 8
    first, second = seen[:4], seen[4:]
    assert first != second
    assert sum(map(sum, first)) == sum(map(sum, second))


def test_the_best_checkpoint_is_kept(tiny_bert: Path, tmp_path: Path) -> None:
    module = toy_module(tiny_bert)
    scores, states = iter([1.0, 5.0, 3.0, 2.0]), []

    def select() -> Measurement:
        states.append(weights(module))
        return Measurement(score=next(scores), **HEALTHY)

    schedule = Schedule(max_steps=4, batch_size=6, learning_rate=1e-3, evaluate_every=1)
    log = train_stage(module, toy_examples(), schedule, tmp_path, select=select)
    assert [entry["eval_score"] for entry in log if "eval_score" in entry] == [1.0, 5.0, 3.0, 2.0]
    assert same(weights(module), states[1])
    assert not same(states[1], states[3])
    kept = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert kept == ["checkpoint-2", "checkpoint-3", "checkpoint-4"]


class Recorder:
    """A bar that notes what it is told."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.n = 0
        self.postfix: dict[str, str] = {}
        self.closed = False

    def update(self, steps: int = 1) -> None:
        self.n += steps

    def set_postfix(self, figures: dict[str, str]) -> None:
        self.postfix = dict(figures)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("shown", [True, False])
def test_a_bar_shows_steps_loss_and_score(
    shown: bool, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Recorder] = []

    def record(**options: Any) -> Recorder:
        bars.append(Recorder(**options))
        return bars[-1]

    monkeypatch.setattr("tertium.training.stage.bar", record)
    module = toy_module(tiny_bert)
    folder = tmp_path / "0-own"
    schedule = Schedule(max_steps=4, batch_size=8, evaluate_every=2)
    train_stage(module, toy_examples(), schedule, folder, select=selection(module), progress=shown)
    assert len(bars) == shown
    for bar in bars:
        assert bar.options["label"] == "own" and bar.options["total"] == bar.n == 4
        assert bar.postfix.keys() == {"loss", "score"}
        assert bar.closed


def test_a_log_file_gets_lines_with_step_loss_and_time_left(
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tertium.progress._LINE_SECONDS", 0.0)
    monkeypatch.setattr("tertium.progress._DELAY", 0.0)
    monkeypatch.setattr("tertium.progress.Lines._open", [])  # another test may have left a bar
    module = toy_module(tiny_bert)
    schedule = Schedule(max_steps=3, batch_size=8, checkpoint_every=1)
    train_stage(module, toy_examples(), schedule, tmp_path / "0-own")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("own: ")]
    assert [line.split(",")[0] for line in lines] == ["own: 1/3", "own: 2/3", "own: 3/3"]
    assert re.fullmatch(r"own: 3/3, \d.* (step/s|s/step), 0:00 left, loss \d+\.\d+", lines[-1])


def test_lower_layers_learn_more_slowly(tiny_bert: Path, tmp_path: Path) -> None:
    module = toy_module(tiny_bert)
    schedule = Schedule(max_steps=1, learning_rate=1.0, layer_decay=0.5)
    trainer = StageTrainer(module, toy_examples(), schedule, tmp_path, progress=False)
    rates = {
        id(p): group["lr"]
        for group in trainer.create_optimizer().param_groups
        for p in group["params"]
    }
    layers = module.encoder.backbone.encoder.layer
    assert [rates[id(layer.output.dense.weight)] for layer in layers] == [0.25, 0.5, 1.0]
    head = module.objectives["smooth_k2"].head
    assert rates[id(head.dense.weight)] == 1.0


def test_frozen_embeddings_stay(tiny_bert: Path, tmp_path: Path) -> None:
    module = toy_module(tiny_bert)
    for name, parameter in module.encoder.backbone.named_parameters():
        parameter.requires_grad = "embeddings" not in name
    before = weights(module)
    train_stage(module, toy_examples(), SHORT, tmp_path)
    for name, tensor in weights(module).items():
        assert torch.equal(tensor, before[name]) == ("embeddings" in name or "pooler" in name), name


def test_accumulated_batches_are_one_step(tiny_bert: Path, tmp_path: Path) -> None:
    results = []
    for accumulate in (1, 4):
        module = toy_module(tiny_bert, dropout=False)
        schedule = Schedule(
            epochs=1,
            batch_size=12 // accumulate,
            accumulate=accumulate,
            learning_rate=1e-3,
            clip=None,
        )
        log = train_stage(module, toy_examples(), schedule, tmp_path / str(accumulate))
        assert log[-1]["step"] == 2
        results.append(weights(module))
    for name, tensor in results[0].items():
        if "key.bias" in name:  # its gradient is rounding noise, which Adam makes large
            continue
        assert_close(results[1][name], tensor, atol=1e-4, rtol=0, msg=name)


def test_a_collapse_stops_with_advice_and_keeps_earlier_checkpoints(
    tiny_bert: Path, tmp_path: Path
) -> None:
    found = iter([Measurement(70.0, **HEALTHY), Measurement(float("nan"), **HEALTHY)])
    schedule = Schedule(max_steps=4, batch_size=8, evaluate_every=1)
    with pytest.raises(CollapseError, match="collapsed at step 2"):
        train_stage(
            toy_module(tiny_bert), toy_examples(), schedule, tmp_path, select=lambda: next(found)
        )
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-1"


def test_a_collapse_may_be_what_is_studied(tiny_bert: Path, tmp_path: Path) -> None:
    alike = Measurement(40.0, uniformity=0.0, effective_rank=1.0, anisotropy=1.0)
    schedule = Schedule(max_steps=2, batch_size=8, evaluate_every=1, on_collapse="continue")
    log = train_stage(
        toy_module(tiny_bert), toy_examples(), schedule, tmp_path, select=lambda: alike
    )
    assert [entry["eval_anisotropy"] for entry in log if "eval_anisotropy" in entry] == [1.0, 1.0]
    with pytest.raises(CollapseError, match=r"span 1\.00 directions"):
        train_stage(
            toy_module(tiny_bert),
            toy_examples(),
            replace(schedule, on_collapse="stop"),
            tmp_path / "stop",
            select=lambda: alike,
        )


def test_a_loss_that_is_not_finite_stops_by_name(tiny_bert: Path, tmp_path: Path) -> None:
    module = toy_module(tiny_bert)
    with torch.no_grad():
        module.objectives["smooth_k2"].head.dense.bias.fill_(float("nan"))
    with pytest.raises(NonFiniteLossError, match="'smooth_k2'"):
        train_stage(module, toy_examples(), SHORT, tmp_path)


# evaluations of short runs


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(max_steps=3, evaluate_every=250), 3),
        (Schedule(max_steps=9, evaluate_every=4), 4),
        (Schedule(batch_size=8, evaluate_every=250), 3),
        (Schedule(batch_size=8, epochs=2, evaluate_every=250), 6),
        (Schedule(batch_size=4, accumulate=2, evaluate_every=250), 3),
        (Schedule(batch_size=100, evaluate_every=250), 1),
        (Schedule(batch_size=8, epochs=0.1, evaluate_every=250), 1),
        (Schedule(max_steps=3), None),
    ],
)
def test_a_short_run_is_evaluated_at_its_end(schedule: Schedule, expected: int | None) -> None:
    assert _at_least_one_evaluation(schedule, 24).evaluate_every == expected


def test_several_processes_take_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    schedule = Schedule(batch_size=4, evaluate_every=250)
    assert _at_least_one_evaluation(schedule, 24).evaluate_every == 3


def test_a_run_shorter_than_the_interval_keeps_its_measured_weights(
    tiny_bert: Path, tmp_path: Path
) -> None:
    module = contrastive_module(tiny_bert)
    schedule = Schedule(batch_size=8, evaluate_every=250, drop_last=True)
    log = train_stage(module, toy_texts(20), schedule, tmp_path, select=selection(module))
    (measured,) = [entry for entry in log if "eval_score" in entry]
    assert measured["step"] == 2  # the last four texts do not fill a batch
    assert selection(module)().score == measured["eval_score"]


# resuming


def resumable(model: Path, folder: Path, *, resume: bool = False) -> dict[str, Tensor]:
    module = toy_module(model)
    train_stage(module, toy_examples(), RESUMABLE, folder, select=selection(module), resume=resume)
    return weights(module)


@pytest.fixture(scope="module")
def uninterrupted(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    return resumable(tiny_bert, tmp_path_factory.mktemp("whole"))


def resumable_contrast(model: Path) -> TrainingModule:
    """Everything that is drawn by chance in a contrastive stage: views, dropout, hidden tokens."""
    return contrastive_module(
        model,
        views={"add": {"rate": "dynamic", "t": 3}, "delete": {"rate": 0.2}},
        projection=True,
        masked=True,
    )


CONTRAST = replace(RESUMABLE, drop_last=True)


@pytest.mark.parametrize("forward", [6, 11])  # of 12, checkpoints after 4, 8 and 12
def test_resuming_a_contrastive_stage_ends_in_the_same_weights(
    forward: int, tiny_bert: Path, tmp_path: Path
) -> None:
    whole = resumable_contrast(tiny_bert)
    before = weights(whole)
    train_stage(whole, toy_texts(), CONTRAST, tmp_path / "whole", select=selection(whole))
    module = resumable_contrast(tiny_bert)
    stop_at(module, forward, stopped)
    folder = tmp_path / "parts"
    with pytest.raises(StoppedError):
        train_stage(module, toy_texts(), CONTRAST, folder, select=selection(module))
    assert last_checkpoint(folder) is not None
    torch.manual_seed(99)
    module = resumable_contrast(tiny_bert)
    for parameter in module.parameters():  # whatever is not in the checkpoint shows
        torch.nn.init.normal_(parameter)
    train_stage(module, toy_texts(), CONTRAST, folder, select=selection(module), resume=True)
    after = weights(whole)
    assert same(weights(module), after)
    for name in ("projection.dense.weight", "objectives.MaskedLM.head.bias"):
        assert not torch.equal(after[name], before[name])


@pytest.mark.parametrize("forward", [1, 4, 6, 9, 12])  # of 12, checkpoints after 4, 8 and 12
def test_resuming_ends_in_the_same_weights(
    forward: int, tiny_bert: Path, tmp_path: Path, uninterrupted: dict[str, Tensor]
) -> None:
    module = toy_module(tiny_bert)
    stop_at(module, forward, stopped)
    with pytest.raises(StoppedError):
        train_stage(module, toy_examples(), RESUMABLE, tmp_path, select=selection(module))
    assert (last_checkpoint(tmp_path) is None) == (forward <= 4)
    torch.manual_seed(99)
    assert same(resumable(tiny_bert, tmp_path, resume=True), uninterrupted)


def test_resuming_twice_and_from_another_place(
    tiny_bert: Path, tmp_path: Path, uninterrupted: dict[str, Tensor]
) -> None:
    folder = tmp_path / "first"
    for forward in (6, 6):
        module = toy_module(tiny_bert)
        stop_at(module, forward, stopped)
        with pytest.raises(StoppedError):
            train_stage(
                module, toy_examples(), RESUMABLE, folder, select=selection(module), resume=True
            )
        folder = folder.rename(folder.with_name(folder.name + "-moved"))
    assert same(resumable(tiny_bert, folder, resume=True), uninterrupted)


def test_an_interrupted_checkpoint_does_not_count(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: StageTrainer, folder: str) -> None:
        if folder.endswith("-4"):
            raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(StageTrainer, "_save_rng_state", interrupted)
        with pytest.raises(StoppedError):
            resumable(tiny_bert, tmp_path)
    half = tmp_path / "checkpoint-4"
    assert (half / "model.safetensors").exists()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert not half.exists()


def test_a_half_written_checkpoint_is_ignored_and_removed(
    tiny_bert: Path, tmp_path: Path, uninterrupted: dict[str, Tensor]
) -> None:
    module = toy_module(tiny_bert)
    stop_at(module, 10, stopped)
    with pytest.raises(StoppedError):
        train_stage(module, toy_examples(), RESUMABLE, tmp_path, select=selection(module))
    half = tmp_path / "checkpoint-5"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert same(resumable(tiny_bert, tmp_path, resume=True), uninterrupted)
    assert not half.exists()


def test_no_checkpoint_is_a_fresh_start(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    assert last_checkpoint(tmp_path / "nowhere") is None
    for step in (9, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "complete").touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


# in processes of their own


@pytest.mark.integration
def test_a_killed_process_is_resumed(
    tiny_bert: Path, tmp_path: Path, uninterrupted: dict[str, Tensor]
) -> None:
    process = fork(lambda: killed(tiny_bert, tmp_path, at=7), errors=tmp_path / "errors.txt")
    assert process.wait() == -signal.SIGKILL, process.errors.read_text()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert same(resumable(tiny_bert, tmp_path, resume=True), uninterrupted)


@pytest.mark.integration
def test_two_processes_are_one_on_the_joined_batch(tiny_bert: Path, tmp_path: Path) -> None:
    by_two(distributed, tiny_bert, tmp_path)
    for name in ("losses", "gradients", "whole"):
        one, two = (load_file(tmp_path / n / f"{name}.safetensors") for n in ("one", "two"))
        assert one.keys() == two.keys() and one
        for key, tensor in one.items():
            if name == "whole" and "key.bias" in key:  # its gradient is rounding noise
                continue
            assert_close(two[key], tensor, atol=1e-4, rtol=1e-4, msg=f"{name}: {key}")
    for n in ("one", "two"):
        resumed = load_file(tmp_path / n / "resumed.safetensors")
        assert same(resumed, load_file(tmp_path / n / "whole.safetensors"))
