"""STS averages of vectors that are cut: trained for it, or not.

tertium train short-minilm -o short
python benchmarks/short_vectors.py default sts-fast turbo short

Cutting is what ``truncate_dim`` does. Beside it, what the same numbers hold at most without
training: the first principal components of each model's vectors, of 3,000 Wikipedia sentences.
"""

import argparse
from pathlib import Path

import numpy as np
from common import publish
from encode import real_texts
from measure import correlations, sts_tasks

from tertium.engines.loading import load_embedder

LENGTHS = (384, 256, 128, 64, 32)
SEEN = 3000  # sentences that principal components are of


def main() -> None:
    """Encode once with each model, and cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--engine", default="default")
    options = parser.parse_args()
    tasks, texts = sts_tasks()
    rows = []
    for name in options.models:
        model = load_embedder(name, engine=options.engine)
        whole = model.encode(texts)
        rows.append([f"{Path(name).name}, cut", *averages(whole, texts, tasks)])
        seen = model.encode(real_texts()["wiki"][:SEEN])
        _, _, components = np.linalg.svd(seen, full_matrices=False)
        turned = whole @ components.T
        rows.append([f"{Path(name).name}, principal components", *averages(turned, texts, tasks)])
    header = ["vectors", *(f"{length} numbers" for length in LENGTHS)]
    publish("short_vectors", "STS averages of short vectors", header, rows)


def averages(vectors: np.ndarray, texts: list[str], tasks: dict[str, list]) -> list[str]:
    """One for each length."""
    return [f"{np.mean(correlations(vectors[:, :length], texts, tasks)):.2f}" for length in LENGTHS]


if __name__ == "__main__":
    main()
