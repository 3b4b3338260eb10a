"""The twelve triples that SEAVER's tables 2 and 8 print: on which side of 3 does a model put them?

python benchmarks/paper_triples.py [MODEL]

They are rows of C-STS's validation part, which is not ours to print: hashes find them.
"""

import hashlib
import sys

from common import data_folder

import tertium
from tertium.data import benchmarks

MIDDLE = 3.0
# sha256 of both sentences and the condition, joined by NUL: table 2, then table 8.
PRINTED = (
    "123937329698cd66",
    "47ebcbe7dad62642",
    "adb3eae47e672b4b",
    "0024097c78804e48",
    "93733e86979afdfa",
    "631e7d547f6bbb7d",
    "45850b92ff4f4f39",
    "7d24ddfe57da3bd4",
    "3ea1e7a6d881b631",
    "4d64a9915af2fe3c",
    "87edb63f1659ce41",
    "11f506a59b882e9d",
)


def main() -> None:
    """Print a line for each, and how many are right."""
    model = tertium.load(sys.argv[1] if len(sys.argv) > 1 else "conditional")
    if not model.takes_conditions:
        sys.exit(f"{model.name} takes no conditions.")
    data = benchmarks.load("C-STS", split="validation", folder=data_folder())
    found = {}
    for row in data.rows:
        texts = (row.sentence1, row.sentence2, row.condition)
        found[hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]] = (texts, row.label)
    rows = [found[key] for key in PRINTED]
    right = 0
    for key, (_, label), score in zip(
        PRINTED, rows, model.score([texts for texts, _ in rows]), strict=True
    ):
        same = (score > MIDDLE) == (label > MIDDLE)
        right += same
        print(f"{key}  label {label:.0f}  score {score:.2f}  {'right' if same else 'wrong'}")
    print(f"{right} of {len(rows)} on the right side of {MIDDLE:g}")


if __name__ == "__main__":
    main()
