import numpy as np

import tertium
from tertium.data import GradedPair, read_rows
from tertium.data.samples import PAIRS
from tertium.evaluation import spearman
from tertium.evaluation.metrics import bootstrap_counts, bootstrap_spearman, percentile_interval

rows = read_rows(PAIRS, GradedPair)
gold = np.array([row.score for row in rows])
cosines = tertium.load().score((row.sentence1, row.sentence2) for row in rows)

counts = bootstrap_counts(len(gold), resamples=1000, seed=0)
low, high = percentile_interval(bootstrap_spearman(gold, cosines, counts))
print(f"{spearman(gold, cosines):.2f}, 95 % interval {low:.2f} to {high:.2f}")
