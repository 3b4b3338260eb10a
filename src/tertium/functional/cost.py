"""Computational cost of an embedding, and score per cost."""

__all__ = ["efficiency", "encoder_macs"]


def encoder_macs(*, tokens: int, layers: int, width: int, feed_forward: int) -> int:
    """Multiply-accumulates of a transformer encoder for one text.

    Each layer has four projections of ``width²`` and two of ``width x feed_forward`` per token, and
    two products of ``width`` per pair of tokens. Embedding lookups, normalisation, softmax and
    activations are not counted.

    >>> encoder_macs(tokens=1, layers=1, width=2, feed_forward=8)
    52
    """
    per_token = 4 * width**2 + 2 * width * feed_forward
    per_pair = 2 * width
    return layers * (tokens * per_token + tokens**2 * per_pair)


def efficiency(score: float, macs: int) -> float:
    """``η``: score per billion multiply-accumulates (JTCSE, section V)."""
    return score / (macs / 1e9)
