"""What conditional models and their averages make of the held-out fold of C-STS's training part.

python benchmarks/conditional_fold.py MODEL [MODEL...]

The ground on which `conditional` was put together: C-STS's validation part has no say in it.
"""

import sys
from itertools import combinations

import numpy as np
from common import data_folder, publish

import tertium
from tertium.evaluation import spearman
from tertium.recipes.files import read_recipe
from tertium.recipes.triples import load_triples


def main() -> None:
    """Print Spearman for each choice of models."""
    stage = read_recipe("csts-bi-minilm").stages[-1]
    rows = load_triples(stage, folder=data_folder()).choosing
    gold = np.array([row.label for row in rows])
    answers = {}
    for name in sys.argv[1:]:
        model = tertium.load(name)
        if not model.takes_conditions:
            sys.exit(f"{name} takes no conditions.")
        answers[name] = model.score([row.texts for row in rows], within_scale=False)
    table = []
    for size in range(1, len(answers) + 1):
        for names in combinations(answers, size):
            found = spearman(gold, np.mean([answers[name] for name in names], axis=0))
            table.append([" + ".join(names), f"{100 * found:.2f}"])
    publish("conditional_fold", f"{len(rows):,} triples held out", ["mean of", "Spearman"], table)


if __name__ == "__main__":
    main()
