from pathlib import Path

import pytest
import torch
from torch import nn

import tertium
from tertium.heads import CONDITIONAL_HEADS, ModelShape
from tertium.models import Encoder
from tertium.models.conditional_model import ConditionalModel
from tertium.objectives import MSE, Consistency, Quadruplet
from tertium.objectives.base import NonFiniteLossError
from tertium.training.examples import Rewording, TripleCollator, TripleExamples, reword
from tertium.training.module import ConditionalModule, WeightedObjective

TEXTS = [("a b", "c", "d"), ("a b", "c", "e f g"), ("x", "y z", "a")]
EXAMPLES = TripleExamples(TEXTS, [1.0, 0.25, 0.5], groups=((0, 1), (2,)))


@pytest.fixture(params=["bi", "seaver"])
def module(request: pytest.FixtureRequest, tiny_bert: Path) -> ConditionalModule:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    head = CONDITIONAL_HEADS[request.param](ModelShape(32, 32, 4, 3))
    mse = MSE(head=nn.Identity(), low=0.0, high=1.0, clip="none")
    objectives = {"mse": WeightedObjective(mse, 0.5)}
    if request.param == "bi":
        objectives["quadruplet"] = WeightedObjective(Quadruplet())
    return ConditionalModule(ConditionalModel(encoder, head), objectives)


def test_a_group_stays_together() -> None:
    assert len(EXAMPLES) == 2
    assert EXAMPLES[0] == [(TEXTS[0], 1.0), (TEXTS[1], 0.25)]


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ("type of food", "The type of food."),
        ("The type of food.", "type of food"),
        ("the type of food", "The type of food."),
        (" Color. ", "The Color."),
        ("the color.", "color"),
        ("", "The ."),
    ],
)
def test_the_other_form_of_a_condition(given: str, other: str) -> None:
    assert reword(given) == other


def test_other_conditions_are_reworded_in_each_epoch() -> None:
    texts = [("a", "b", f"condition {at}") for at in range(400)]
    alone = tuple((at,) for at in range(400))
    examples = TripleExamples(texts, [0.5] * 400, groups=alone, rewording=Rewording(0.25, seed=1))

    def reworded() -> set[int]:
        return {at for at in range(400) if examples[at][0][0][2].startswith("The ")}

    first = reworded()
    assert 60 < len(first) < 140 and first == reworded()
    examples.set_epoch(1)
    assert reworded() != first
    examples.set_epoch(0)
    assert reworded() == first


def test_a_batch_has_labels_and_groups(module: ConditionalModule) -> None:
    collate = TripleCollator(module.conditional)
    batch = collate([EXAMPLES[0], EXAMPLES[1]])
    assert batch["labels"].tolist() == [1.0, 0.25, 0.5]
    assert batch["groups"].tolist() == [0, 0, 1]
    sequences = len(module.conditional.head.layout.sequences)
    assert len(batch["input_ids"]) == 3 * sequences
    assert max(collate.lengths(EXAMPLES)) == batch["input_ids"].shape[1]


def test_the_loss_is_the_sum_of_weighted_terms(module: ConditionalModule) -> None:
    module.eval()
    batch = TripleCollator(module.conditional)([EXAMPLES[0], EXAMPLES[1]])
    found = module(**batch)
    scores = module.conditional(batch).score
    expected = 0.5 * (scores - batch["labels"]).square().mean()
    torch.testing.assert_close(found["mse"], expected)
    terms = [value for name, value in found.items() if name != "loss"]
    torch.testing.assert_close(found["loss"], torch.stack(terms).sum())


def test_every_weight_is_saved_once_and_follows_the_mode(module: ConditionalModule) -> None:
    names = list(module.state_dict())
    pointers = [tensor.data_ptr() for tensor in module.state_dict().values() if tensor.numel()]
    assert len(set(pointers)) == len(pointers)
    assert any(name.startswith("head.") for name in names) or module.head.state_dict() == {}
    for mode in (True, False):
        module.train(mode)
        assert module.conditional.training is module.encoder.model.training is mode


def test_a_term_that_is_not_finite_is_named(module: ConditionalModule) -> None:
    batch = TripleCollator(module.conditional)([EXAMPLES[0]])
    batch["labels"][0] = torch.nan
    with pytest.raises(NonFiniteLossError, match="'mse' is nan"):
        module(**batch)


def test_consistency_reads_every_triple_twice(module: ConditionalModule) -> None:
    objectives = {
        name: WeightedObjective(objective, 1.0) for name, objective in module.objectives.items()
    }
    twice = ConditionalModule(
        module.conditional, {**objectives, "consistency": WeightedObjective(Consistency())}
    )
    once = ConditionalModule(module.conditional, objectives)
    batch = TripleCollator(module.conditional)([EXAMPLES[0], EXAMPLES[1]])
    twice.eval()
    calm, plain = twice(**batch), once(**batch)
    assert calm["consistency"] == 0
    for name, value in plain.items():
        torch.testing.assert_close(calm[name], value)
    twice.train()
    stirred = twice(**batch)
    assert stirred["consistency"] > 0
    stirred["consistency"].backward()
    assert any(p.grad is not None and p.grad.any() for p in twice.parameters())
