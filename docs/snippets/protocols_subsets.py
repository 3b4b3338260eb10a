from tertium.evaluation.tasks.sts import subset_correlations

# Each subset is ranked well in itself, but the second sits lower on the model's scale.
found = subset_correlations(
    {
        "news": ([1, 2, 3, 4], [0.5, 0.6, 0.7, 0.8]),
        "forum": ([3, 4, 5, 5], [0.1, 0.2, 0.3, 0.4]),
    }
)
for summary in ("all", "mean", "wmean"):
    print(f"{summary}: {found[summary]['spearman']:.2f}")
