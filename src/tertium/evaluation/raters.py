"""Agreement of several raters, and how well a model could agree with them."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.evaluation.metrics import defined, hundred, pearson, spearman

__all__ = ["krippendorff_alpha", "rater_agreement"]

Matrix = NDArray[np.float64]
_FEWEST = 3  # minimum shared pairs to compare two raters


def krippendorff_alpha(ratings: ArrayLike, *, nominal: bool = False) -> float:
    """Krippendorff's alpha: 1 for agreement, 0 for chance, NaN if undefined.

    Args:
        ratings: a row per rater and a column per pair, NaN for missing ratings.
        nominal: compare labels by equality; otherwise by squared difference.

    >>> a, b = [1, 2, 3, 3], [1, 2, 3, 2]
    >>> round(krippendorff_alpha([a, b], nominal=True), 3)
    0.667
    """
    matrix = np.asarray(ratings, np.float64)
    said = ~np.isnan(matrix)
    paired = said.sum(axis=0) >= 2
    matrix, said = matrix[:, paired], said[:, paired]
    values, totals = np.unique(matrix[said], return_counts=True)
    if len(values) < 2:
        return float("nan")
    if not nominal:
        raters = said.sum(axis=0)
        within = np.nanvar(matrix, axis=0) * raters * raters / (raters - 1)
        count = int(raters.sum())
        return float(1 - within.sum() / (matrix[said].var() * count * count / (count - 1)))
    counts = np.stack([(matrix == value).sum(axis=0) for value in values], axis=1).astype(float)
    raters = counts.sum(axis=1)
    # How often two labels of a pair differ, and how often two labels of all pairs do.
    differ = ((raters**2 - (counts**2).sum(axis=1)) / (raters - 1)).sum()
    total = totals.sum()
    return float(1 - differ * (total - 1) / (total**2 - (totals**2).sum()))


def rater_agreement(ratings: Mapping[str, ArrayLike], *, binary: bool) -> dict[str, Any] | None:
    """Agreement of several raters, times 100; None for a single one.

    ``ceiling`` is the expected correlation of the mean of this many raters with the mean of as many
    others, by the Spearman-Brown formula from the mean correlation of two; a model that knows what
    all people think on average reaches about its square root, ``perfect_model``.
    ``one_against_the_rest`` is the mean correlation of one rater with the mean of the others.

    Args:
        ratings: one number per pair for each rater, NaN for missing ratings.
        binary: whether ratings say yes or no.
    """
    names = sorted(ratings)
    matrix = np.array([np.asarray(ratings[name], np.float64) for name in names])
    if len(names) < 2:
        return None
    pairwise, correlations = [], []
    for one, two in combinations(range(len(names)), 2):
        both = ~np.isnan(matrix[one]) & ~np.isnan(matrix[two])
        if both.sum() < _FEWEST:
            continue
        a, b = matrix[one][both], matrix[two][both]
        found = spearman(a, b)
        correlations.append(pearson(a, b))
        pairwise.append(
            {
                "raters": [names[one], names[two]],
                "pairs": int(both.sum()),
                "same": hundred(float((a == b).mean())),
                "spearman": hundred(found),
            }
        )
    known = [value for value in correlations if not np.isnan(value)]
    mean = float(np.mean(known)) if known else float("nan")
    usual = float(np.median((~np.isnan(matrix)).sum(axis=0)))  # raters of a pair
    reliability = usual * mean / (1 + (usual - 1) * mean) if mean > 0 else float("nan")
    return {
        "raters": names,
        "alpha": defined(krippendorff_alpha(matrix, nominal=binary)),
        "pairwise": pairwise,
        "one_against_the_rest": hundred(_against_the_rest(matrix)),
        "ceiling": hundred(reliability),
        "perfect_model": hundred(float(np.sqrt(reliability))),
    }


def _against_the_rest(matrix: Matrix) -> float:
    found = []
    for row in range(len(matrix)):
        others = np.delete(matrix, row, axis=0)
        both = ~np.isnan(matrix[row]) & ~np.isnan(others).all(axis=0)
        if both.sum() >= _FEWEST:
            found.append(spearman(matrix[row][both], np.nanmean(others[:, both], axis=0)))
    known = [value for value in found if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
