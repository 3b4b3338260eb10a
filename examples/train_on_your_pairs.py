"""Train on graded pairs, then look at pairs that were held out: before and after.

python examples/train_on_your_pairs.py

On the forty sample pairs: enough to see every step, too few to learn much.
"""

import random
import tempfile
from pathlib import Path

import numpy as np

import tertium
from tertium.data import GradedPair, read_rows
from tertium.data.samples import PAIRS
from tertium.evaluation import spearman

FILE = PAIRS  # your own: Path("my_pairs.tsv"), graded from 0 to 5

RECIPE = """\
summary: Graded similarity on my own pairs
encoder: {{model: default, normalize: true, max_length: 128, freeze: embeddings}}
stages:
  - name: mine
    data:
      sources: [{{file: '{file}'}}]
      labels: {{low: 0, high: 5}}
    objectives: [{{kind: smooth_k2, head: cosine, slope: 4.0, threshold: 0.25}}]
    train: {{epochs: 4, batch_size: 8, learning_rate: 3.0e-5, warmup: 0.1}}
"""


def main() -> None:
    """Hold a third out, train on the rest, compare on both parts."""
    rows = read_rows(FILE, GradedPair, scale=(0, 5))
    random.Random(0).shuffle(rows)
    held_out, seen = rows[: len(rows) // 3], rows[len(rows) // 3 :]
    before = tertium.load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "seen.tsv", seen)
        recipe = folder / "mine.yaml"
        recipe.write_text(RECIPE.format(file=folder / "seen.tsv"), encoding="utf-8")
        trained = tertium.train(recipe, folder / "model", evaluate_after=False)
        after = tertium.load(trained.folder)
    print(f"{len(seen)} pairs trained on in {trained.seconds:.0f} s, {len(held_out)} held out\n")
    print("pairs       Spearman before  after   mean error before  after")
    for part, pairs in (("held out", held_out), ("trained on", seen)):
        texts = [(row.sentence1, row.sentence2) for row in pairs]
        gold = np.array([row.score for row in pairs])
        # The untrained model has no grades: 5 times the cosine is the best guess without labels.
        scores = [5 * before.score(texts).clip(0, 1), after.score(texts)]
        ranks = [100 * spearman(gold, found) for found in scores]
        errors = [float(np.abs(gold - found).mean()) for found in scores]
        print(f"{part:<12}{ranks[0]:>15.1f}{ranks[1]:>7.1f}{errors[0]:>20.2f}{errors[1]:>7.2f}")
    print("\nOnly the first line says anything about pairs the model has not seen.")
    if len(held_out) < 100:
        print(f"And {len(held_out)} pairs say little: on another split the difference may turn.")


def write(path: Path, rows: list[GradedPair]) -> None:
    """Pairs as the table that a recipe reads."""
    lines = [f"{row.sentence1}\t{row.sentence2}\t{row.score}\n" for row in rows]
    path.write_text("".join(["sentence1\tsentence2\tscore\n", *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
