"""The MinHash pass of dedupe: how much of what an exact search finds it finds, and how fast it is.

python benchmarks/minhash.py                  # 58,674 sentences, then a million made from them
python benchmarks/minhash.py --made 0         # recall only
python benchmarks/minhash.py --speed          # speed only, without a model
python benchmarks/minhash.py --limit 2000     # tiny, publishes nothing

Recall: of the pairs of real sentences that reach a cosine, the share that the first pass names;
and of the texts that an exact dedupe removes, the share that is removed after the first pass.
Speed: sentences with one word changed at a time, up to a million short texts, no vectors.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import publish
from index_life import embedded, sentences
from search_vectors import timed

from tertium.corpus import dedupe, find_candidates
from tertium.corpus.minhash import minhash_pairs


def main() -> None:
    """Recall on real sentences, speed on many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--vectors", type=Path, help="of the sentences, as encode writes them")
    parser.add_argument("--made", type=int, default=1_000_000)
    parser.add_argument("--speed", action="store_true", help="no recall, and no vectors")
    options = parser.parse_args()
    texts = sentences(options.limit)
    rows = [] if options.speed else _recall(texts, embedded(texts, options.vectors))
    if options.made and options.limit is None:
        took, (first, _) = _first_pass(_made(texts, options.made))
        rows.append(["made", "", f"{options.made:,}", f"{len(first):,} pairs named", took])
    header = ["what", "cosine", "texts or pairs", "found", "time or removed"]
    title = "MinHash as the first pass of dedupe: 32 bands of 4, runs of five characters"
    if options.limit is None:
        publish("minhash", title, header, rows)
    else:
        print(title, header, *rows, sep="\n")


def _recall(texts: list[str], vectors: np.ndarray) -> list[list[str]]:
    took, (first, second) = _first_pass(texts)
    named = set((first * len(texts) + second).tolist())
    rows = [["sentences", "", f"{len(texts):,}", f"{len(first):,} pairs named", took]]
    for threshold in (0.8, 0.9, 0.95):
        exact = find_candidates(texts, vectors, floor=threshold, progress=False)
        pairs = (exact.first * len(texts) + exact.second).tolist()
        kept = dedupe(texts, vectors, threshold=threshold, progress=False)
        quick = dedupe(texts, vectors, threshold=threshold, method="minhash", progress=False)
        gone, found = ({each.row for each in result.dropped} for result in (kept, quick))
        share = len(named.intersection(pairs)) / max(len(pairs), 1)
        left = len(gone & found) / max(len(gone), 1)
        recall = [f"{len(pairs):,}", f"{share:.3f}", f"{len(gone):,} removed, {left:.3f} of them"]
        rows.append(["recall", f"{threshold}", *recall])
    return rows


def _made(texts: list[str], count: int) -> list[str]:
    """Beginnings of sentences, each with a word changed."""
    generator = np.random.default_rng(0)
    found = []
    for at in generator.integers(0, len(texts), count).tolist():
        words = texts[at].split()[:12]
        words[int(generator.integers(len(words)))] = f"w{int(generator.integers(10**6))}"
        found.append(" ".join(words))
    return found


def _first_pass(texts: list[str]) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    start = time.process_time()
    took, found = timed(lambda: minhash_pairs(texts, progress=False))
    return f"{took:.1f} s, {time.process_time() - start:.1f} s of processor", found


if __name__ == "__main__":
    main()
