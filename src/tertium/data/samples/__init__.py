"""A few dozen sentences and graded pairs, so that everything works with nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tertium.data.rows import GradedPair

__all__ = ["PAIRS", "SENTENCES", "sample_pairs", "sample_sentences"]

SENTENCES = Path(__file__).with_name("sentences.txt")
PAIRS = Path(__file__).with_name("pairs.tsv")


def sample_sentences() -> list[str]:
    """Everyday sentences on many subjects."""
    from tertium.data.readers import iter_texts

    return list(iter_texts(SENTENCES))


def sample_pairs() -> "list[GradedPair]":
    """Pairs graded from 0 (unrelated) to 5 (the same), some of them tricky.

    >>> min(pair.score for pair in sample_pairs()), max(pair.score for pair in sample_pairs())
    (0.0, 5.0)
    """
    from tertium.data.readers import read_rows
    from tertium.data.rows import GradedPair

    return read_rows(PAIRS, GradedPair, scale=(0, 5))
