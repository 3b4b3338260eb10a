"""Texts before the model: checked, cut to length and counted, and batches without padding waste."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError, TertiumWarning
from tertium.models.language import looks_foreign
from tertium.types import TextPair, TextTriple

__all__ = [
    "BlankConditionWarning",
    "ForeignTextWarning",
    "TokenizationStats",
    "TruncationWarning",
    "UnknownTextWarning",
    "beginning",
    "check_texts",
    "check_triples",
    "chunks",
    "flat_pairs",
    "lean_batches",
    "padded",
    "run_batches",
    "token_budget_batches",
    "unique",
    "valid_text",
]

T = TypeVar("T")
R = TypeVar("R")

_LOOKED = 1000  # texts whose language is guessed: enough for a warning
_CALL = 1 / 32  # of the budget: what a batch costs beside its tokens
_SHARED = 128  # tokens: less is not worth another thread


class TruncationWarning(TertiumWarning):
    """Some texts were longer than the model reads."""


class UnknownTextWarning(TertiumWarning):
    """Some texts hold nothing that the model's vocabulary knows."""


class ForeignTextWarning(TertiumWarning):
    """Some texts do not look English, which is what the model knows."""


class BlankConditionWarning(TertiumWarning):
    """Some triples have no condition."""


@dataclass
class TokenizationStats:
    """How many texts were not read whole, over all calls that share it; ``report`` says so once.

    Attributes:
        cut: texts that were too long.
        texts: all of them.
        limit: how many tokens are read.
        unknown: texts of which the vocabulary knows nothing, so that all of them are alike.
        unit: what is counted.
        foreign: texts in another language than the model's, of the ``looked`` first ones.
        looked: texts whose language was guessed.
    """

    cut: int = 0
    texts: int = 0
    limit: int = 0
    unknown: int = 0
    unit: Literal["text", "pair", "triple"] = "text"
    foreign: int = 0
    looked: int = 0

    def look(self, texts: Sequence[str], *, english: Callable[[], bool]) -> None:
        """Guess the language of the first texts; ``english`` says whether the model's is English.

        It is asked only if there is a text that does not look English.
        """
        first = texts[: max(_LOOKED - self.looked, 0)]
        self.looked += len(first)
        foreign = sum(map(looks_foreign, first))
        if foreign and english():
            self.foreign += foreign

    def add(self, *, cut: int, texts: int, limit: int, unknown: int = 0) -> None:
        """Count one call."""
        self.cut += cut
        self.texts += texts
        self.limit = limit
        self.unknown += unknown

    def add_most(self, others: Sequence["TokenizationStats"]) -> None:
        """Count what several models read of the same texts: the one that cuts most counts."""
        most = max(others, key=lambda stats: stats.cut)
        self.add(cut=most.cut, texts=most.texts, limit=most.limit, unknown=most.unknown)
        self.foreign += most.foreign
        self.looked += most.looked

    def report(self, *, stacklevel: int = 2) -> None:
        """Warn if anything was cut, unknown or in another language."""
        if self.unknown:
            warnings.warn(
                f"{self.unknown} of {self.texts} distinct texts hold nothing that the model's "
                "vocabulary knows (only emoji, or one endless word): to it they are all alike.",
                UnknownTextWarning,
                stacklevel=stacklevel + 1,
            )
        if self.foreign:
            warnings.warn(
                f"{self.foreign} of the first {self.looked} distinct texts do not look English, "
                "and the model's vocabulary is English: scores mean little. Name a model for their "
                "language.",
                ForeignTextWarning,
                stacklevel=stacklevel + 1,
            )
        if self.cut:
            what, kept = "distinct texts", "only the beginning was read"
            if self.unit == "triple":
                what, kept = "triples", "the longer sentence was cut first"
            warnings.warn(
                f"{self.cut} of {self.texts} {what} had more than {self.limit} tokens; {kept}.",
                TruncationWarning,
                stacklevel=stacklevel + 1,
            )


def check_texts(texts: Iterable[str], *, start: int = 0) -> list[str]:
    """The texts as a list; what is not a string raises, by its number from ``start``."""
    found = list(texts)
    for index, text in enumerate(found, start):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] is {type(text).__name__} ({text!r}), not a string.")
    return found


def flat_pairs(pairs: Iterable[TextPair]) -> list[str]:
    """The texts of checked pairs, first and second in turn."""
    flat: list[str] = []
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2:
            raise TertiumError(f"pairs[{index}] is {pair!r}, not a pair of two texts.")
        flat += pair
    return flat


def checked_pairs(pairs: Iterable[TextPair]) -> list[TextPair]:
    """The pairs as a list; what is not two texts raises."""
    flat = flat_pairs(pairs)
    return list(zip(flat[0::2], flat[1::2], strict=True))


def check_triples(triples: Iterable[TextTriple]) -> list[TextTriple]:
    """The triples as a list; what is not two sentences and a condition raises."""
    found = list(triples)
    for index, triple in enumerate(found):
        whole = not isinstance(triple, str) and len(triple) == 3
        if not whole or not all(isinstance(text, str) for text in triple):
            raise TertiumError(
                f"triples[{index}] is {triple!r}, not two sentences and a condition."
            )
    return [(a, b, condition) for a, b, condition in found]


def unique(items: Iterable[T]) -> tuple[list[T], NDArray[np.int64]]:
    """Distinct items in the order in which they first occur, and the place of each item there.

    >>> unique("abca")
    (['a', 'b', 'c'], array([0, 1, 2, 0]))
    """
    places: dict[T, int] = {}
    rows = [places.setdefault(item, len(places)) for item in items]
    return list(places), np.array(rows, np.int64)


def valid_text(text: str) -> str:
    """``text`` with what UTF-8 cannot hold replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def beginning(text: str, size: int) -> str:
    """At most ``size`` characters, whole words if there are any: a longer text costs no more.

    >>> beginning("a dog barks", 8), beginning("ideographs", 5)
    ('a dog', 'ideog')
    """
    if len(text) <= size:
        return text
    words = text[:size].rsplit(maxsplit=1)
    return words[0] if len(words) == 2 else text[:size]


def token_budget_batches(lengths: np.ndarray, *, budget: int) -> list[np.ndarray]:
    """Cut indices, longest first, into batches of at most ``budget`` tokens padding included.

    A text longer than the budget gets a batch of its own. Longest first means that memory peaks
    at once and that a progress bar speeds up rather than slows down.

    >>> token_budget_batches(np.array([3, 9, 4, 4]), budget=12)
    [array([1]), array([2, 3, 0])]
    """
    order = _longest_first(lengths, budget)
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        size = max(budget // longest, 1)
        batches.append(order[start : start + size])
        start += size
    return batches


def lean_batches(
    lengths: np.ndarray, *, budget: int, most: int | None = None, workers: int = 1
) -> list[np.ndarray]:
    """As :func:`token_budget_batches`, but cut where padding costs more than another batch.

    The cheapest cuts between texts of different lengths, by dynamic programming: a batch costs its
    tokens, padding included, and a part of the budget besides. Of a few texts of all lengths, one
    large batch would often be half padding. No batch has more than ``most`` texts; a few texts are
    cut so that all ``workers`` have something to run.

    >>> lean_batches(np.array([3, 40, 4, 38]), budget=256)
    [array([1, 3]), array([2, 0])]
    """
    order = _longest_first(lengths, budget)
    if most is not None and most < 1:
        raise ValueError(f"the batch size must be at least 1, got {most}")
    if workers > 1:
        budget = min(budget, max(-(-int(lengths.sum()) // workers), _SHARED))
    if len(order) == 1:
        return [order]
    lengths = np.maximum(lengths[order], 1)
    begins = np.flatnonzero(np.diff(lengths, prepend=0))  # where a shorter length begins
    widths, edges = lengths[begins], np.append(begins, len(order))
    sizes = np.clip(budget // widths, 1, most)
    least, last = np.zeros(len(edges)), np.zeros(len(edges), int)
    for end in range(1, len(edges)):
        counts = edges[end] - edges[:end]
        calls = -(-counts // sizes[:end])
        costs = least[:end] + counts * widths[:end] + calls * (_CALL * budget)
        last[end] = costs.argmin()
        least[end] = costs[last[end]]
    batches: list[np.ndarray] = []
    end = len(begins)
    while end:
        begin = last[end]
        run = order[edges[begin] : edges[end]]
        batches[:0] = np.array_split(run, -(-len(run) // sizes[begin]))
        end = begin
    return batches


def run_batches(
    run: Callable[[T], R], batches: Sequence[T], *, workers: int
) -> Iterator[tuple[T, R]]:
    """Each batch with what ``run`` makes of it, in order; threads run ``workers`` at once.

    >>> list(run_batches(len, ["ab", "c"], workers=2))
    [('ab', 2), ('c', 1)]
    """
    if min(workers, len(batches)) <= 1:
        yield from ((batch, run(batch)) for batch in batches)
        return
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(run, batch) for batch in batches]
        try:
            for batch, done in zip(batches, running, strict=True):
                yield batch, done.result()
        finally:  # after an error or Ctrl-C nothing new begins
            for each in running:
                each.cancel()


def _longest_first(lengths: np.ndarray, budget: int) -> np.ndarray:
    if budget < 1:
        raise ValueError(f"the token budget must be at least 1, got {budget}")
    return np.argsort(-lengths, kind="stable")


def padded(
    rows: Sequence[Sequence[int]], *, padding: int, width: int | None = None, left: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of token ids as one matrix, and the mask of what is real in it.

    Args:
        rows: token ids.
        padding: fills up what is shorter than the longest row, or than ``width``.
        width: of the matrix (default: the longest row).
        left: fill up on the left.

    >>> padded([[5, 6, 7], [8]], padding=0)[0].tolist()
    [[5, 6, 7], [8, 0, 0]]
    """
    lengths = np.fromiter(map(len, rows), int, len(rows))
    places = np.arange(int(lengths.max(initial=0)) if width is None else width)
    real = (places[::-1] if left else places) < lengths[:, None]
    ids = np.full(real.shape, padding)
    ids[real] = np.fromiter(itertools.chain.from_iterable(rows), int, int(lengths.sum()))
    return ids, real


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a stream into lists of ``size`` items, the last one shorter; only one is in memory.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
