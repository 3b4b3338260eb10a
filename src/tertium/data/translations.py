"""Translations made elsewhere: row i of one file belongs to row i of the other."""

import itertools
from pathlib import Path

from tertium.data.problems import DataError, Problem
from tertium.data.readers import iter_texts
from tertium.errors import TertiumError
from tertium.types import TextPair

__all__ = ["read_translation"]


def read_translation(original: Path, translated: Path) -> list[TextPair]:
    """Pairs of a text and its translation; rows that are blank in both files are left out.

    Args:
        original: text file or table, one text a row.
        translated: the same number of rows, in the same order.

    Raises:
        TertiumError: one file has more rows than the other.
        DataError: a text has no translation, or a translation no text.
    """
    pairs: list[TextPair] = []
    rows = itertools.zip_longest(iter_texts(original), iter_texts(translated))
    for number, (text, translation) in enumerate(rows, 1):
        if text is None or translation is None:
            short, long = (original, translated) if text is None else (translated, original)
            raise TertiumError(
                f"{short} ends after {number - 1:,} texts, and {long} goes on: row i of a "
                "translation belongs to row i of its original. Make the translation again."
            )
        if text.strip() and translation.strip():
            pairs.append((text, translation))
        elif text.strip() or translation.strip():
            blank, other = (translated, original) if text.strip() else (original, translated)
            remedy = f"blank, and row {number} of {other} is not; write the text, or remove both"
            raise DataError([Problem(str(blank), number, "", None, remedy)])
    return pairs
