"""Finds pairs that two files share, ignoring order, case and punctuation."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tertium.data.readers import detect_kind, iter_rows
from tertium.data.rows import Row, SentencePair, Triplet
from tertium.errors import TertiumError

__all__ = [
    *("PairKey", "holds_pairs", "keys_of", "pair_key", "pair_keys", "parse_spec", "sentence_key"),
]

PairKey = tuple[str, str]


def pair_key(first: str, second: str) -> PairKey:
    """A key that is equal for equal pairs: unordered, with only letters and digits.

    >>> pair_key("A dog barks.", "It's raining!") == pair_key("it s RAINING", "a dog barks")
    True
    """
    low, high = sorted((_letters(first), _letters(second)))
    return low, high


def pair_keys(path: Path, *, split: str | None = None) -> frozenset[PairKey]:
    """Keys of all pairs in a file; a triplet counts as two pairs.

    Args:
        path: any file of pairs: graded, conditional, NLI, paraphrases, triplets, the user's own.
        split: only rows with this value in the column ``split``.
    """
    if not holds_pairs(path):
        raise TertiumError(
            f"{path}: holds single texts, not pairs. Name a file with columns sentence1, sentence2."
        )
    row_type = Triplet if detect_kind(path) == "triplets" else SentencePair
    return keys_of(iter_rows(path, row_type, split=split))


def holds_pairs(path: Path) -> bool:
    """Whether the rows of a file are pairs or triplets rather than single texts."""
    return detect_kind(path) not in {"texts", "labelled"}


def keys_of(rows: Iterable[Row]) -> frozenset[PairKey]:
    """Keys of all pairs in ``rows``; a triplet counts as two pairs, a single text as none."""
    return frozenset(key for row in rows for key in _row_keys(row))


def parse_spec(spec: str) -> tuple[Path, str | None]:
    """Split ``FILE:SPLIT`` into its parts, unless it is the name of an existing file.

    >>> parse_spec("stsb.tsv:train")[1]
    'train'
    """
    file, colon, split = spec.rpartition(":")
    names_a_split = split.replace("-", "").replace("_", "").isalnum()
    # A single letter before the colon is a drive, as in C:data.
    if colon and len(file) > 1 and names_a_split and not Path(spec).exists():
        return Path(file), split
    return Path(spec), None


def _row_keys(row: Row) -> Iterator[PairKey]:
    if isinstance(row, SentencePair):
        yield pair_key(row.sentence1, row.sentence2)
    elif isinstance(row, Triplet):
        yield pair_key(row.anchor, row.positive)
        yield pair_key(row.anchor, row.hard_negative)


def sentence_key(text: str) -> str:
    """A key that is equal for spellings of one sentence: letters and digits, or else all signs.

    >>> sentence_key("It's RAINING!"), sentence_key(" ?! ")
    ('itsraining', '?!')
    """
    return _letters(text) or " ".join(text.split())


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
