"""Does the criterion without labels choose the checkpoint that STS-B's development part would?

python benchmarks/label_free.py
"""

import tempfile
import warnings
from pathlib import Path

from common import data_folder, publish
from scipy.stats import spearmanr
from train_contrastive import load_texts

from tertium.recipes.build import build_encoder, build_module, build_schedule
from tertium.recipes.data import load_examples
from tertium.recipes.files import read_recipe
from tertium.recipes.selection import build_selection, recognition
from tertium.training import train_stage
from tertium.training.health import Measurement

RATES = (1e-5, 1e-4)  # the recipe's rate, and ten times that
HELD_OUT = 512


def main() -> None:
    """Train SimCSE at two rates and measure each checkpoint in both ways."""
    warnings.simplefilter("ignore")
    rows = []
    for rate in RATES:
        found = _curve(rate)
        for step, (score, free) in enumerate(found):
            rows.append([f"{rate:g}", str(13 * step), f"{score:.2f}", f"{free:.4f}"])
        agreement = spearmanr(*zip(*found, strict=True)).statistic
        best, chosen = max(found), max(found, key=lambda pair: pair[1])
        rows.append(
            [
                f"**{rate:g}: chosen without labels, best**",
                "",
                f"**{chosen[0]:.2f}, {best[0]:.2f}**",
                f"**rank correlation {agreement:.2f}**",
            ]
        )
    title = "Choosing a checkpoint without labels: SimCSE, 5,000 Wikipedia sentences"
    publish("label_free", title, ["rate", "step", "STS-B dev", "recognition"], rows)


def _curve(rate: float) -> list[tuple[float, float]]:
    """STS-B dev and recognition of held-out texts, from the untrained model on."""
    recipe = read_recipe("simcse-minilm", settings={"stages.contrast.train.learning_rate": rate})
    stage = recipe.stages[0]
    folder = data_folder()
    encoder = build_encoder(recipe.encoder)
    material = load_examples(stage, folder=folder)
    assert stage.select is not None
    select = build_selection(stage.select, encoder, folder=folder)
    assert select is not None
    held_out = load_texts(limit=None)
    seen = {text for (text,) in material.examples.texts}
    held_out = [text for text in held_out if text not in seen][:HELD_OUT]
    found: list[tuple[float, float]] = []

    def measure() -> Measurement:
        measured = select()
        found.append((measured.score, recognition(encoder, held_out)))
        print(rate, found[-1], flush=True)
        return measured

    measure()
    module = build_module(stage, material, encoder)
    with tempfile.TemporaryDirectory() as temporary:
        schedule = build_schedule(stage)
        train_stage(module, material.examples, schedule, Path(temporary), select=measure)
    return found


if __name__ == "__main__":
    main()
