import numpy as np

from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_spearman,
    percentile_interval,
    two_sided_p,
)

generator = np.random.default_rng(0)
gold = generator.uniform(0, 5, size=500)
noise = generator.normal(size=500)
ours, theirs = gold + noise, gold + 1.1 * noise  # nearly the same model

counts = bootstrap_counts(500, resamples=1000, seed=0)
samples = [bootstrap_spearman(gold, scores, counts) for scores in (ours, theirs)]
for name, sample in zip(("ours", "theirs"), samples, strict=True):
    low, high = percentile_interval(sample)
    print(f"{name}: {low:.2f} to {high:.2f}")
print(f"p {two_sided_p(samples[0] - samples[1]):.3f}")
