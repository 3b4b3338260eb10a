"""What one embedding costs, and what a point of score costs."""

__all__ = ["efficiency", "encoder_macs"]


def encoder_macs(*, tokens: int, layers: int, width: int, feed_forward: int) -> int:
    """Multiply-accumulates of a transformer encoder on one text of so many tokens.

    Per layer four projections of ``width²`` and two of ``width x feed_forward`` for every token,
    and two products of ``width`` for every pair of tokens; embeddings are looked up, and
    normalisation, softmax and activation are not counted.

    >>> encoder_macs(tokens=1, layers=1, width=2, feed_forward=8)
    52
    """
    per_token = 4 * width**2 + 2 * width * feed_forward
    per_pair = 2 * width
    return layers * (tokens * per_token + tokens**2 * per_pair)


def efficiency(score: float, macs: int) -> float:
    """``η``: score for every billion of multiply-accumulates (JTCSE, section V)."""
    return score / (macs / 1e9)
