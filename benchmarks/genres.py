"""How a recipe that grades pairs does on a genre of STS-B that it has not seen, by adapter factor.

python benchmarks/genres.py sts-base --factors 0 0.25 0.5 0.75 1      # 3 trainings

For each genre the recipe is trained on the other genres of the training part, without choosing a
checkpoint; then weights between those of its base (factor 0) and the tuned ones (factor 1) grade
the genre's pairs of the training and development parts.
"""

import argparse
import csv
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from common import data_folder, publish

import tertium
from tertium.data import benchmarks
from tertium.evaluation import spearman
from tertium.evaluation.metrics import cosines
from tertium.models import Encoder
from tertium.recipes.build import build_encoder
from tertium.recipes.files import read_recipe

GENRES = {"headlines": "main-news", "captions": "main-captions", "forum": "main-forum"}


def main() -> None:
    """Print Spearman on each genre, by the factor on what training changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="sts-base")
    parser.add_argument("--factors", type=float, nargs="+", default=[0, 0.25, 0.5, 0.75, 1])
    parser.add_argument("--pairs", type=int, default=1000, help="of a genre that are graded")
    options = parser.parse_args()
    recipe = read_recipe(options.recipe)
    stage = recipe.stages[-1]
    rows = [
        (row.subset.removesuffix("s"), row.sentence1, row.sentence2, row.score)
        for split in ("train", "dev")
        for row in benchmarks.load("STS-B", split=split, folder=data_folder(), text="raw").rows
    ]
    size = len(benchmarks.load("STS-B", split="train", folder=data_folder(), text="raw").rows)
    found = {}
    for name, genre in GENRES.items():
        genre = genre.removesuffix("s")
        others = [row[1:] for row in rows[:size] if row[0] != genre]
        held_out = [row[1:] for row in rows if row[0] == genre]
        graded = random.Random(0).sample(held_out, min(options.pairs, len(held_out)))
        encoder = build_encoder(recipe.encoder)
        base = {k: v.clone() for k, v in encoder.backbone.state_dict().items()}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "others.tsv"
            write(file, others)
            settings = {
                f"stages.{stage.name}.data.sources": [{"file": str(file)}],
                f"stages.{stage.name}.select": None,
                "encoder.adapter_rank": None,
                "encoder.adapter_factor": 1.0,
            }
            model = Path(folder) / "model"
            tertium.train(options.recipe, model, settings=settings, evaluate_after=False)
            tuned = tertium.load(model, engine="torch").encoder.backbone.state_dict()
        for factor in options.factors:
            between = {
                key: torch.lerp(value, tuned[key], factor) if value.is_floating_point() else value
                for key, value in base.items()
            }
            encoder.backbone.load_state_dict(between)
            found[name, factor] = grade(encoder, graded, stage.train.precision)
            print(f"{name} {factor:g}: {found[name, factor]:.2f}", flush=True)
    table = []
    for factor in options.factors:
        figures = [found[name, factor] for name in GENRES]
        table.append([f"{factor:g}", *(f"{x:.2f}" for x in (*figures, np.mean(figures)))])
    title = f"{options.recipe}: Spearman on a genre of STS-B that training left out"
    publish(f"genres_{options.recipe}", title, ["factor", *GENRES, "mean"], table)


def write(file: Path, rows: list[tuple[str, str, float]]) -> None:
    """Pairs as a table that a recipe reads."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t")
        writer.writerow(["sentence1", "sentence2", "score"])
        writer.writerows(rows)


def grade(encoder: Encoder, rows: list[tuple[str, str, float]], precision: str) -> float:
    """Spearman times 100 of cosines and grades."""
    texts = [text for first, second, _ in rows for text in (first, second)]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        vectors = encoder.encode(texts, progress=False)
    return 100 * spearman([grade for *_, grade in rows], cosines(vectors[0::2], vectors[1::2]))


if __name__ == "__main__":
    main()
