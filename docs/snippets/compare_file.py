from pathlib import Path

import tertium
from tertium.data import Pair, iter_rows
from tertium.data.samples import PAIRS
from tertium.jobs.writers import write_scores

model = tertium.load("sts")
pairs = ((row.sentence1, row.sentence2) for row in iter_rows(PAIRS, Pair))
print(write_scores(model, pairs, Path("scored.tsv")))
