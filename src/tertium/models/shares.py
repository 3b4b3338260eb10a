"""What each model of several contributes."""

import math

from tertium.errors import TertiumError

__all__ = ["member_weights"]


def member_weights(count: int, last: float | None = None) -> list[float]:
    """Factors of ``count`` members: 1 each, or JTCSE-UC's where the last one has its own weight.

    With ``last = w`` the embedding is (1 - w) times the sum of the others plus w times the last
    (JTCSE, Zong et al., 2025; its authors take w = 0.7).

    >>> member_weights(3)
    [1.0, 1.0, 1.0]
    >>> member_weights(3, 0.75)
    [0.25, 0.25, 0.75]
    """
    if last is None:
        return [1.0] * count
    if count < 2:
        raise TertiumError("A weight for the last model needs another model before it.")
    if not (math.isfinite(last) and 0 < last < 1):
        raise TertiumError(f"The weight of the last model lies between 0 and 1, not {last:g}.")
    return [1 - last] * (count - 1) + [last]
