"""What JTCSE's joint training costs against two encoders apart, and a twin against two in use.

python benchmarks/train_jtcse.py
"""

import warnings

from common import data_folder, publish
from torch import Tensor
from train_contrastive import BATCH, LENGTH, Step, times_in_turn, training_step

from tertium.functional import nt_xent
from tertium.models import Encoder
from tertium.models.surgery import tower_encoders
from tertium.recipes.build import build_encoder, build_module
from tertium.recipes.data import load_examples
from tertium.recipes.files import parse_settings, read_recipe
from tertium.training.examples import Collator
from tertium.training.passes import encode_tokens
from tertium.types import Tokens

RECIPE = "jtcse-joint-minilm"
ENCODED = 400


def main() -> None:
    """Steps in turn in one process on the same batches; then encoding."""
    warnings.simplefilter("ignore")
    steps = {
        "two towers apart, NCE each": _apart(),
        "joint, no cross attention (TNCSE)": _joint("cross_layers=0"),
        "joint, side": _joint("branch=side"),
        "joint, stream, 3 crossings": _joint("cross_layers=3"),
        "joint, stream, 6 crossings": _joint("cross_layers=6"),
    }
    middle = times_in_turn(steps, rounds=2)
    rows = [[name, f"{1000 * took:.0f} ms", f"{ratio:.2f}"] for name, took, ratio in _costs(middle)]
    twin = build_encoder(read_recipe(RECIPE).encoder)
    first, second = tower_encoders(twin)
    uses = {
        f"encode {ENCODED} texts, two plain encoders": lambda texts: [
            tower.encode(texts, progress=False) for tower in (first, second)
        ],
        f"encode {ENCODED} texts, twin": lambda texts: twin.encode(texts, progress=False),
        f"encode {ENCODED} texts, one plain encoder, as a student is": lambda texts: first.encode(
            texts, progress=False
        ),
    }
    costs = _costs(times_in_turn(uses, size=ENCODED))
    rows += [[name, f"{took:.2f} s", f"{ratio:.2f}"] for name, took, ratio in costs]
    rows += [["**twin, times as fast as two plain encodes**", "", f"**{1 / costs[1][2]:.2f}**"]]
    title = f"JTCSE's joint step, batch {BATCH}, at most {LENGTH} tokens, Wikipedia sentences"
    publish("train_jtcse", title, ["what", "time", "cost, apart = 1"], rows)


def _costs(times: dict[str, float]) -> list[tuple[str, float, float]]:
    """Each with its time and how many times that of the first it is."""
    base = next(iter(times.values()))
    return [(name, took, took / base) for name, took in times.items()]


def _joint(setting: str) -> Step:
    """One step of the joint stage with a setting of its cross attention."""
    recipe = read_recipe(RECIPE, settings=parse_settings([f"stages.joint.objectives.1.{setting}"]))
    stage = recipe.stages[0]
    material = load_examples(stage, folder=data_folder())
    module = build_module(stage, material, build_encoder(recipe.encoder))
    collate = Collator(module.encoder.tokenizer, max_length=LENGTH)
    return training_step(
        module, lambda batch: module(**collate([((text,), None) for text in batch]))["loss"]
    )


def _apart() -> Step:
    """The two towers one after another, each with NCE on its own two views."""
    recipe = read_recipe(RECIPE)
    twin = build_encoder(recipe.encoder)
    steps = [_alone(tower) for tower in tower_encoders(twin)]
    return lambda batch: [step(batch) for step in steps]


def _alone(encoder: Encoder) -> Step:
    collate = Collator(encoder.tokenizer, max_length=LENGTH)

    def loss(batch: list[str]) -> Tensor:
        features = collate([((text,), None) for text in batch])
        both = Tokens(features["input_ids"].repeat(2, 1), features["attention_mask"].repeat(2, 1))
        first, second = encode_tokens(encoder, both, budget=1024).embedding.chunk(2)
        return nt_xent(first, second, temperature=0.05).mean()

    return training_step(encoder.model, loss)


if __name__ == "__main__":
    main()
