from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

import tertium
from tertium.errors import TertiumError
from tertium.functional import info_nce
from tertium.heads import Projection
from tertium.models import Encoder
from tertium.objectives import InfoNCE, NTXent
from tertium.objectives.attention_mi import AttentionMI
from tertium.training import TrainingModule, train_stage
from tertium.training.examples import Collator
from tertium.training.negatives import MomentumQueue
from tertium.training.stage import StageTrainer, last_checkpoint
from tertium.types import Tokens
from tests.training.processes import by_two
from tests.training.toys import (
    RESUMABLE,
    StoppedError,
    contrastive_module,
    queued,
    selection,
    stop_at,
    stopped,
    toy_texts,
    weights,
)

SETTINGS: dict[str, Any] = {"size": 5, "decay": 0.9, "dropout": 0.3}


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    loaded = tertium.load(tiny_bert, engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


def tokens(encoder: Encoder, *texts: str) -> Tokens:
    features = encoder.features(texts)
    return Tokens(features["input_ids"], features["attention_mask"])


def embedded(encoder: Encoder, *texts: str) -> Tensor:
    with torch.no_grad():
        return encoder.forward(encoder.features(texts)).embedding


def collated(module: TrainingModule, start: int = 0, count: int = 4) -> dict[str, Tensor]:
    examples = toy_texts()
    chosen = [examples[at] for at in range(start, start + count)]
    return Collator(module.encoder.tokenizer, max_length=64)(chosen)


def disturb(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


# the queue


def test_the_newest_come_first_and_the_oldest_fall_out(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **SETTINGS).eval()
    assert queue.negatives is None
    batches = [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]
    for number, batch in enumerate(batches, 1):
        queue.push(tokens(encoder, *batch), None)
        pushed = [embedded(encoder, *texts) for texts in reversed(batches[:number])]
        assert queue.negatives is not None
        assert_close(queue.negatives, torch.cat(pushed)[:5], atol=1e-5, rtol=1e-5)
        assert len(queue.negatives) == min(2 * number, 5)


def test_a_batch_larger_than_the_queue(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **{**SETTINGS, "size": 3}).eval()
    queue.push(tokens(encoder, *"abcde"), None)
    assert queue.negatives is not None
    assert_close(queue.negatives, embedded(encoder, *"abc"), atol=1e-5, rtol=1e-5)


def test_what_was_handed_out_does_not_change(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **SETTINGS).eval()
    queue.push(tokens(encoder, "a", "b"), None)
    before = queue.negatives
    assert before is not None and not before.requires_grad
    kept = before.clone()
    queue.push(tokens(encoder, "c", "d"), None)
    assert torch.equal(before, kept)


def test_the_projection_is_the_one_in_training(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **SETTINGS).eval()
    projection = Projection(dimension=encoder.dimension, spread=0.3)
    for seed in (0, 1):
        disturb(projection, seed)
        queue.push(tokens(encoder, "a", "b"), projection)
        assert queue.negatives is not None
        expected = projection(embedded(encoder, "a", "b")).detach()
        assert_close(queue.negatives[:2], expected, atol=1e-5, rtol=1e-5)
    assert all(parameter.grad is None for parameter in projection.parameters())


# the slow encoder


def test_it_is_a_moving_average(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **SETTINGS)
    expected = {n: p.detach().clone().double() for n, p in encoder.model.named_parameters()}
    for seed in range(3):
        disturb(encoder.model, seed)
        queue.follow(encoder)
        for name, parameter in encoder.model.named_parameters():
            expected[name] = 0.9 * expected[name] + 0.1 * parameter.detach().double()
    found = dict(queue.slow_model.named_parameters())
    assert found.keys() == expected.keys()
    for name, parameter in found.items():
        assert_close(parameter.double(), expected[name], atol=1e-6, rtol=1e-5)
    disturb(encoder.model, 9)  # it is a copy, and moves when it is told to
    word = "0.model.embeddings.word_embeddings.weight"
    assert_close(found[word].double(), expected[word], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("decay", "moves"), [(1.0, False), (0.0, True)])
def test_the_ends_of_the_decay(decay: float, moves: bool, encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **{**SETTINGS, "decay": decay})
    before = weights(queue.slow_model)
    disturb(encoder.model, 0)
    queue.follow(encoder)
    after = weights(encoder.model if moves else queue.slow_model)
    for name, tensor in weights(queue.slow_model).items():
        assert_close(tensor, after[name])
        assert torch.equal(tensor, before[name]) != moves or "position_ids" in name


def test_its_dropout_is_raised_and_no_other(encoder: Encoder) -> None:
    queue = MomentumQueue(encoder, **SETTINGS).train()
    slow, fast = (
        {m.p for m in model.modules() if isinstance(m, nn.Dropout)}
        for model in (queue.slow_model, encoder.model)
    )
    assert (slow, fast) == ({0.3}, {0.1})
    for _ in range(2):
        queue.push(tokens(encoder, "a b c", "d e"), None)
    assert queue.negatives is not None
    assert not torch.allclose(queue.negatives[:2], queue.negatives[2:4], atol=1e-3)


@pytest.mark.parametrize(
    "wrong", [{"size": 0}, {"decay": -0.1}, {"decay": 1.1}, {"dropout": 1.0}, {"dropout": -0.1}]
)
def test_settings_that_make_no_sense(wrong: dict[str, float], encoder: Encoder) -> None:
    with pytest.raises(TertiumError, match="momentum needs a queue of at least 1"):
        MomentumQueue(encoder, **{**SETTINGS, **wrong})


# in a training module


def test_the_first_step_has_no_queue_and_the_second_that_of_the_first(tiny_bert: Path) -> None:
    module = contrastive_module(
        tiny_bert,
        InfoNCE(temperature=0.5),
        momentum={**SETTINGS, "dropout": 0.0},
        projection=True,
        dropout=False,
    ).train()
    assert module.momentum is not None and module.projection is not None
    one, two = collated(module), collated(module, 4)

    def sides(batch: dict[str, Tensor]) -> Tensor:
        assert module.projection is not None
        return module.projection(module.encoder.forward(batch).embedding)

    z = sides(one)
    plain = info_nce(z, z, temperature=0.5).mean()
    assert_close(module(**one)["contrast"], plain, atol=1e-4, rtol=1e-4)
    disturb(module.encoder.model, 0)  # the queue is of the weights as they were
    w = sides(two)
    expected = info_nce(w, w, temperature=0.5, queue=z.detach()).mean()
    assert_close(module(**two)["contrast"], expected, atol=1e-4, rtol=1e-4)
    # Then the slow encoder has moved a tenth of the way, before it embeds the second batch.
    assert module.momentum.negatives is not None
    slow = module.momentum.slow.forward(two).embedding
    rows = torch.cat([module.projection(slow), z])[:5]
    assert_close(module.momentum.negatives, rows.detach(), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(slow, module.encoder.forward(two).embedding, atol=1e-3)


def test_nt_xent_sees_the_queue_too(tiny_bert: Path) -> None:
    module = contrastive_module(
        tiny_bert, NTXent(), momentum={**SETTINGS, "dropout": 0.0}, dropout=False
    ).train()
    batch = collated(module)
    first, second = (module(**batch)["contrast"] for _ in range(2))
    assert second > first


def test_evaluation_leaves_the_queue_alone(tiny_bert: Path) -> None:
    module = contrastive_module(tiny_bert, momentum=SETTINGS)
    module.train()(**collated(module))
    disturb(module.encoder.model, 0)
    assert module.momentum is not None
    before = weights(module.momentum)
    module.eval()(**collated(module, 4))
    after = weights(module.momentum)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_nothing_of_it_learns(tiny_bert: Path, tmp_path: Path) -> None:
    module = contrastive_module(
        tiny_bert, InfoNCE(), AttentionMI(), momentum=SETTINGS, projection=True
    ).train()
    for start in (0, 4):
        module(**collated(module, start))["loss"].backward()
    assert module.momentum is not None and module.projection is not None
    slow = list(module.momentum.parameters())
    assert slow and all(p.grad is None and not p.requires_grad for p in slow)
    assert module.projection.dense.weight.grad is not None
    trainer = StageTrainer(module, toy_texts(), RESUMABLE, tmp_path, progress=False)
    groups = trainer.create_optimizer().param_groups
    learning = {id(parameter) for group in groups for parameter in group["params"]}
    assert not learning & {id(parameter) for parameter in slow}
    assert learning >= {id(parameter) for parameter in module.encoder.model.parameters()}


def test_a_state_dict_brings_queue_and_slow_encoder_back(tiny_bert: Path) -> None:
    module = contrastive_module(tiny_bert, momentum=SETTINGS).train()
    for start in (0, 4):
        module(**collated(module, start))
        disturb(module.encoder.model, start)
    other = contrastive_module(tiny_bert, momentum=SETTINGS)
    disturb(other, 7)
    other.load_state_dict(weights(module))
    assert module.momentum is not None and other.momentum is not None
    assert module.momentum.negatives is not None and other.momentum.negatives is not None
    assert torch.equal(other.momentum.negatives, module.momentum.negatives)
    texts = tokens(module.encoder, "a b c", "d")
    for queue in (module.momentum, other.momentum):
        queue.eval().push(texts, None)
    assert torch.equal(other.momentum.rows, module.momentum.rows)


def resumable(model: Path) -> TrainingModule:
    return contrastive_module(
        model,
        InfoNCE(),
        AttentionMI(samples=40),
        views={"add": {"rate": "dynamic", "t": 4}},
        momentum={"size": 16, "decay": 0.9, "dropout": 0.3},
        projection=True,
    )


@pytest.mark.parametrize("forward", [6, 11])  # of 12, checkpoints after 4, 8 and 12
def test_resuming_ends_in_the_same_weights_and_queue(
    forward: int, tiny_bert: Path, tmp_path: Path
) -> None:
    schedule = replace(RESUMABLE, drop_last=True)
    whole = resumable(tiny_bert)
    train_stage(whole, toy_texts(), schedule, tmp_path / "whole", select=selection(whole))
    module = resumable(tiny_bert)
    stop_at(module, forward, stopped)
    folder = tmp_path / "parts"
    with pytest.raises(StoppedError):
        train_stage(module, toy_texts(), schedule, folder, select=selection(module))
    assert last_checkpoint(folder) is not None
    torch.manual_seed(99)
    module = resumable(tiny_bert)
    disturb(module, 0)  # whatever is not in the checkpoint shows
    train_stage(module, toy_texts(), schedule, folder, select=selection(module), resume=True)
    found, expected = weights(module), weights(whole)
    assert found.keys() == expected.keys() and "momentum.rows" in found
    assert int(found["momentum.filled"]) >= 12
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.integration
def test_all_processes_have_the_queue_of_the_joined_batches(
    tiny_bert: Path, tmp_path: Path
) -> None:
    one, two = by_two(queued, tiny_bert, tmp_path)
    expected = load_file(one / "queue-0.safetensors")
    first, second = (load_file(two / f"queue-{rank}.safetensors") for rank in (0, 1))
    assert first.keys() == second.keys() == expected.keys()
    assert int(expected["filled"]) == len(expected["rows"]) == 20
    for name, tensor in expected.items():
        assert torch.equal(first[name], second[name]), name
        if "key.bias" not in name:  # its gradient is rounding noise
            assert_close(first[name], tensor, atol=1e-4, rtol=1e-3, msg=name)
