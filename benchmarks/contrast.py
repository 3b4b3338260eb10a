"""Does a model put a paraphrase above a small change that turns the meaning?

python benchmarks/contrast.py [MODEL...]     # default and sts

Each row of contrast.tsv has a text, another that says the same in other words, and one that differs
in a word or two and says something else. All of them were written for this file.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from common import publish

import tertium

RESAMPLED = 2000
NEGATION = ("negation", "antonym", "double negation")


def main() -> None:
    """Accuracy of each model by kind of contrast, with bootstrap intervals."""
    with Path(__file__).with_suffix(".tsv").open(encoding="utf-8", newline="") as file:
        items = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    kinds = np.array([item["kind"] for item in items])
    names = sys.argv[1:] or ["default", "sts"]
    gaps = {}
    for name in names:
        model = tertium.load(name)
        near, far = (
            model.score([(item["text"], item[side]) for item in items])
            for side in ("nearer", "farther")
        )
        gaps[name] = near - far
    groups = {kind: kinds == kind for kind in dict.fromkeys(kinds)}
    groups["the first three"] = np.isin(kinds, NEGATION)
    groups["all"] = np.ones(len(items), bool)
    rows = [
        [kind, str(chosen.sum()), *(accuracy(gaps[name][chosen]) for name in names)]
        for kind, chosen in groups.items()
    ]
    title = f"{len(items)} contrasts: paraphrases above changed texts, %, with 95 % intervals"
    publish("contrast", title, ["kind", "items", *names], rows)


def accuracy(gaps: np.ndarray) -> str:
    """Share of positive gaps, and its bootstrap interval."""
    right = gaps > 0
    drawn = np.random.default_rng(0).integers(len(right), size=(RESAMPLED, len(right)))
    low, high = np.percentile(right[drawn].mean(axis=1), [2.5, 97.5])
    return f"{100 * right.mean():.1f} ({100 * low:.0f} to {100 * high:.0f})"


if __name__ == "__main__":
    main()
