"""Pairs a second of our training step against sentence-transformers' CoSENTLoss training.

python benchmarks/train_regression.py
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from common import data_folder, peak_memory, publish

BATCH, STEPS = 32, 120


def main() -> None:
    """Both engines in processes of their own: same model, data, batch size, steps and threads."""
    found = {engine: _run(engine) for engine in ("tertium", "unbucketed", "sentence-transformers")}
    base = found["sentence-transformers"]["rate"]
    labels = {
        "tertium": "tertium, batches bucketed by length (as in the recipes)",
        "unbucketed": "tertium, random batches",
        "sentence-transformers": "sentence-transformers, CoSENTLoss, random batches",
    }
    rows = [
        [labels[e], f"{f['rate']:.1f}", f"{f['rate'] / base:.2f}", f"{f['memory']:.0f} MB"]
        for e, f in found.items()
    ]
    title = f"Training on STS-B, batch {BATCH}, {STEPS} steps"
    publish("train_regression", title, ["engine", "pairs/s", "ratio", "peak memory"], rows)


def _run(engine: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--engine", engine]
    found: dict[str, float] = json.loads(subprocess.check_output(command).splitlines()[-1])
    return found


def _tertium(folder: Path, *, bucket: bool) -> float:
    from tertium.recipes.build import build_encoder, build_module
    from tertium.recipes.data import load_examples
    from tertium.recipes.files import read_recipe
    from tertium.training import Schedule, train_stage

    recipe = read_recipe(
        "sts-regression-minilm",
        settings={"encoder.freeze": "nothing", "encoder.adapter_rank": None},
    )
    stage = recipe.stages[0]
    material = load_examples(stage, folder=data_folder())
    module = build_module(stage, material, build_encoder(recipe.encoder))
    schedule = Schedule(
        max_steps=STEPS, batch_size=BATCH, bucket=bucket, checkpoint_every=10 * STEPS
    )
    log = train_stage(module, material.examples, schedule, folder, progress=False)
    return log[-1]["train_runtime"]


def _sentence_transformers(folder: Path) -> float:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.losses import CoSENTLoss
    from sentence_transformers.training_args import SentenceTransformerTrainingArguments

    from tertium.data import benchmarks
    from tertium.models.embedded import default_folder

    rows = benchmarks.load("STS-B", split="train", folder=data_folder(), text="raw").rows
    data = Dataset.from_dict(
        {
            "sentence1": [row.sentence1 for row in rows],
            "sentence2": [row.sentence2 for row in rows],
            "score": [row.score / 5 for row in rows],
        }
    )
    model = SentenceTransformer(str(default_folder()), device="cpu")
    model.max_seq_length = 128
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        max_steps=STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=CoSENTLoss(model)
    )
    start = time.perf_counter()
    trainer.train()
    return time.perf_counter() - start


def _measure(engine: str) -> None:
    """Train in this process and print rate and peak memory as JSON."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if engine == "sentence-transformers":
            spent = _sentence_transformers(folder)
        else:
            spent = _tertium(folder, bucket=engine == "tertium")
    print(json.dumps({"rate": BATCH * STEPS / spent, "memory": peak_memory()}))


if __name__ == "__main__":
    if "--engine" in sys.argv:
        _measure(sys.argv[-1])
    else:
        main()
