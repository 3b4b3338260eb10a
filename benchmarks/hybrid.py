"""Titles as queries of their passages: mean reciprocal rank of vectors, words, and both.

python benchmarks/hybrid.py            # some minutes; publishes benchmarks/results/hybrid.md
python benchmarks/hybrid.py --limit 50

The data are the first lines of the corpus of SimCSE, verbatim: a title stands before the sentences
of its article. A title is a line of two to eight words that begins with a capital letter and ends
without a full stop; its passage is what follows, up to six sentences and without the title.
"""

import argparse
import gzip
import tempfile
from pathlib import Path

import numpy as np
from common import data_folder, publish

import tertium
from tertium.corpus import Index

DEPTH = 100


def main() -> None:
    """Build one index, ask it three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=None, help="titles; publishes nothing")
    parser.add_argument("--model", default="default")
    options = parser.parse_args()
    articles = _articles()[: options.limit]
    titles, passages = [title for title, _ in articles], [passage for _, passage in articles]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.build(Path(folder) / "index", passages, tertium.load(options.model))
        by_vector = index.search_many(titles, top_k=DEPTH)
        both = index.search_many(titles, top_k=DEPTH, hybrid=True)
        words = [index._snapshot.find_words(title, None, DEPTH) for title in titles]
    ranks = {
        "vectors": [[hit.id for hit in hits] for hits in by_vector],
        "words (BM25)": [[str(number) for number in numbers] for numbers in words],
        "both (reciprocal rank fusion)": [[hit.id for hit in hits] for hits in both],
    }
    rows = [[name, *_figures(found)] for name, found in ranks.items()]
    title = f"{len(titles):,} titles of Wikipedia looking for their passages, {options.model}"
    header = ["ranked by", f"MRR@{DEPTH}", "first", "among 10"]
    if options.limit is not None:
        print(title, header, *rows, sep="\n")
    else:
        publish("hybrid", title, header, rows)


def _figures(found: list[list[str]]) -> list[str]:
    places = [
        ids.index(str(number)) + 1 if str(number) in ids else 0
        for number, ids in enumerate(found, 1)
    ]
    reciprocal = [1 / place if place else 0.0 for place in places]
    share = [np.mean([0 < place <= most for place in places]) for most in (1, 10)]
    return [f"{np.mean(reciprocal):.4f}", *(f"{each:.4f}" for each in share)]


def _articles() -> list[tuple[str, str]]:
    with gzip.open(data_folder() / "wiki1m_for_simcse_head.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if 2 <= len(line.split()) <= 8 and line[0].isupper() and line[-1] not in ".!?\"')”,;:":
            found.append((line, []))
        elif found and len(found[-1][1]) < 6:
            found[-1][1].append(line)
    seen: set[str] = set()
    articles = []
    for title, sentences in found:
        if len(sentences) >= 2 and title not in seen:
            seen.add(title)
            articles.append((title, " ".join(sentences)))
    return articles


if __name__ == "__main__":
    main()
