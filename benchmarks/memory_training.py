"""Peak memory of one training step: supervised SimCSE against STS-Regression.

python benchmarks/memory_training.py [MODEL]

The paper names 58 GB for supervised SimCSE (512 triplets of 32 tokens) and 42 GB for its own method
at eight times the length (16 pairs of 256 tokens), on BERT-base and an accelerator. Here both take
one step with texts of full length on the embedded model, or on MODEL; AdamW's two moments count.
"""

import subprocess
import sys

import torch
from common import peak_memory, publish

from tertium.recipes.build import build_encoder, build_module
from tertium.recipes.data import Amount, StageData
from tertium.recipes.files import read_recipe
from tertium.training import Examples

RUNS = {
    "supervised SimCSE": ("simcse-sup-bert", 512, 32),
    "STS-Regression": ("sts-regression-bert", 16, 256),
    "STS-Regression, SimCSE's length": ("sts-regression-bert", 16, 32),
    "loaded, no step": ("sts-regression-bert", 0, 32),
}


def main(model: str) -> None:
    """Each run in a process of its own, or an earlier peak would hide it."""
    rows = []
    for name, (_, batch, length) in RUNS.items():
        command = [sys.executable, __file__, "--run", name, model]
        peak = float(subprocess.check_output(command).split()[-1])
        rows.append([name, str(batch or ""), str(length if batch else ""), f"{peak:.0f} MB"])
    header = ["method", "examples", "tokens", "peak"]
    publish("memory_training", f"Peak memory of a training step, {model}", header, rows)


def step(name: str, model: str) -> None:
    """One step on random tokens of full length; print the peak in MB."""
    recipe, batch, length = RUNS[name]
    checked = read_recipe(recipe, settings={"encoder.model": model, "encoder.max_length": length})
    encoder, stage = build_encoder(checked.encoder), checked.stages[0]
    labels = None if stage.data.labels is None else stage.data.labels.build()
    sides = 2 if labels is not None else 3
    examples = Examples([("a",) * sides], None if labels is None else [0.0])
    amount = Amount(1, None, "examples", short=False)
    module = build_module(stage, StageData(examples, labels, (), (), amount), encoder).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5)
    if batch:
        ids = torch.randint(1000, encoder.backbone.config.vocab_size, (sides * batch, length))
        gold = None if labels is None else torch.zeros(batch)
        loss = module(labels=gold, input_ids=ids, attention_mask=torch.ones_like(ids))["loss"]
        loss.backward()
        optimizer.step()
    print(peak_memory())


if __name__ == "__main__":
    if "--run" in sys.argv:
        step(*sys.argv[2:4])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "default")
