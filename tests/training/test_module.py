from pathlib import Path

import torch
from torch.testing import assert_close

from tertium.objectives import MSE, SmoothK2
from tertium.training import TrainingModule
from tertium.training.examples import Collator
from tertium.training.module import WeightedObjective
from tertium.types import ViewPair
from tests.training.toys import toy_examples, toy_module


def test_one_merged_forward_gives_the_terms_of_two(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert, dropout=False).eval()
    encoder, examples = module.encoder, toy_examples(8)
    batch = Collator(encoder.tokenizer, max_length=64)([examples[at] for at in range(8)])
    found = module(**batch)
    sides = [
        encoder.forward(encoder.features([texts[side] for texts in examples.texts]))
        for side in (0, 1)
    ]
    assert examples.labels is not None
    views = ViewPair(*sides, labels=torch.tensor(examples.labels))
    expected = module.objectives["smooth_k2"](views)
    assert found.keys() == {"loss", "smooth_k2"}
    assert_close(found["smooth_k2"], expected["smooth_k2"], atol=1e-5, rtol=1e-5)
    assert_close(found["loss"], found["smooth_k2"])


def test_terms_are_weighted_and_added(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert, objectives={"smooth_k2": SmoothK2, "mse": MSE}).eval()
    weighted = TrainingModule(
        module.encoder,
        {
            "smooth_k2": WeightedObjective(module.objectives["smooth_k2"]),  # type: ignore[arg-type]
            "mse": WeightedObjective(module.objectives["mse"], weight=0.5),  # type: ignore[arg-type]
        },
        sides=2,
    ).eval()
    examples = toy_examples(4)
    batch = Collator(module.encoder.tokenizer, max_length=64)([examples[at] for at in range(4)])
    plain, found = module(**batch), weighted(**batch)
    assert_close(found["mse"], 0.5 * plain["mse"])
    assert_close(found["loss"], plain["smooth_k2"] + 0.5 * plain["mse"])


def test_a_checkpoint_holds_all_that_learns(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert)
    names = set(module.state_dict())
    assert "objectives.smooth_k2.head.dense.weight" in names
    assert any(name.startswith("model.0.") for name in names)
    assert {name for name, _ in module.named_parameters()} <= names
