"""Texts before the model: checks, counts of cut texts, and batches with little padding."""

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

_LOOKED = 1000  # texts whose language is guessed, enough for a warning
_CALL = 1 / 32  # cost of a batch besides its tokens, as a share of the budget
_SHARED = 128  # tokens; fewer are not worth another thread


class TruncationWarning(TertiumWarning):
    """Some texts were longer than the model reads."""


class UnknownTextWarning(TertiumWarning):
    """Some texts contain nothing that the model's vocabulary knows."""


class ForeignTextWarning(TertiumWarning):
    """Some texts do not look English, unlike the model's vocabulary."""


class BlankConditionWarning(TertiumWarning):
    """Some triples have no condition."""


@dataclass
class TokenizationStats:
    """Counts of texts that were cut or not understood, over all calls that share the object.

    Attributes:
        cut: texts that were too long.
        texts: all texts.
        limit: maximum number of tokens.
        unknown: texts without a token that the vocabulary knows, which are all alike to the model.
        unit: the unit that is counted.
        foreign: texts in a language other than the model's, among the first ``looked``.
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
        """Guess the language of the first texts.

        ``english`` tells whether the model's vocabulary is English; it is called only if some text
        does not look English.
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
        """Count the same texts as read by several models, taking the one that cuts the most."""
        most = max(others, key=lambda stats: stats.cut)
        self.add(cut=most.cut, texts=most.texts, limit=most.limit, unknown=most.unknown)
        self.foreign += most.foreign
        self.looked += most.looked

    def report(self, *, stacklevel: int = 2) -> None:
        """Warn if anything was cut, unknown or in another language."""
        if self.unknown:
            warnings.warn(
                f"{self.unknown} of {self.texts} distinct texts contain nothing that the model's "
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
    """The texts as a list; raises for one that is not a string, with its number from ``start``."""
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
    """The pairs as a list; raises for one that is not two texts."""
    flat = flat_pairs(pairs)
    return list(zip(flat[0::2], flat[1::2], strict=True))


def check_triples(triples: Iterable[TextTriple]) -> list[TextTriple]:
    """The triples as a list; raises for one that is not two sentences and a condition."""
    found = list(triples)
    for index, triple in enumerate(found):
        whole = not isinstance(triple, str) and len(triple) == 3
        if not whole or not all(isinstance(text, str) for text in triple):
            raise TertiumError(
                f"triples[{index}] is {triple!r}, not two sentences and a condition."
            )
    return [(a, b, condition) for a, b, condition in found]


def unique(items: Iterable[T]) -> tuple[list[T], NDArray[np.int64]]:
    """Distinct items in order of first occurrence, and the position of each item among them.

    >>> unique("abca")
    (['a', 'b', 'c'], array([0, 1, 2, 0]))
    """
    places: dict[T, int] = {}
    rows = [places.setdefault(item, len(places)) for item in items]
    return list(places), np.array(rows, np.int64)


def valid_text(text: str) -> str:
    """``text`` with characters that UTF-8 cannot encode replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def beginning(text: str, size: int) -> str:
    """At most ``size`` characters, cut between words if possible.

    >>> beginning("a dog barks", 8), beginning("ideographs", 5)
    ('a dog', 'ideog')
    """
    if len(text) <= size:
        return text
    words = text[:size].rsplit(maxsplit=1)
    return words[0] if len(words) == 2 else text[:size]


def token_budget_batches(lengths: np.ndarray, *, budget: int) -> list[np.ndarray]:
    """Split indices, longest first, into batches of at most ``budget`` tokens including padding.

    A text longer than the budget gets a batch of its own. With the longest first, memory peaks at
    the start and a progress bar speeds up rather than slows down.

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
    """As :func:`token_budget_batches`, but also split where padding costs more than another batch.

    Finds the cheapest split between texts of different lengths by dynamic programming, where a
    batch costs its tokens including padding, and a fixed share of the budget. One large batch of a
    few texts of all lengths would often be half padding. No batch has more than ``most`` texts; a
    few texts are split so that all ``workers`` have something to run.

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
    begins = np.flatnonzero(np.diff(lengths, prepend=0))  # where the length changes
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
    """Each batch with the result of ``run``, in order; ``workers`` threads run at once.

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
        finally:  # after an error or Ctrl-C, start no more
            for each in running:
                each.cancel()


def _longest_first(lengths: np.ndarray, budget: int) -> np.ndarray:
    if budget < 1:
        raise ValueError(f"the token budget must be at least 1, got {budget}")
    return np.argsort(-lengths, kind="stable")


def padded(
    rows: Sequence[Sequence[int]], *, padding: int, width: int | None = None, left: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of token ids as one matrix, and the mask of real tokens.

    Args:
        rows: token ids.
        padding: id that fills up shorter rows.
        width: width of the matrix (default: that of the longest row).
        left: pad on the left.

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
    """Split a stream into lists of ``size`` items, the last one shorter, one in memory at a time.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
