"""Sentences and a condition as one sequence of tokens, built from ids, never from joined text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.heads.layout import HeadLayout
from tertium.models.passages import Span, cut_texts
from tertium.models.tokenizer import Tokenizer
from tertium.models.tokens import padded, valid_text
from tertium.types import TextTriple

__all__ = ["JoinedIds", "TripleReader", "TripleTokenizer", "shared_budget"]

_PADDING = -1
_FRAME = 4  # special tokens around two texts and a condition


@dataclass(frozen=True)
class JoinedIds:
    """One sequence: its token ids, and where the condition begins.

    Attributes:
        ids: all tokens, special ones included.
        sentences: how many tokens belong to the sentences; the rest is the condition, or the
            second text of a pair.
        cut: whether the texts were cut.
    """

    ids: list[int]
    sentences: int
    cut: bool = False


class TripleTokenizer:
    """Builds ``CLS s1 SEP s2 SEP condition SEP`` from segments, within a maximum length.

    Every text is tokenized by itself and its ids are put between special ones, so that the
    position of each segment is known. A separator written in a text is read as text.

    Args:
        tokenizer: the model's tokenizer, which knows the special ids.
        max_length: maximum tokens of a sequence.
    """

    def __init__(self, tokenizer: Tokenizer, *, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._first = _special("cls", tokenizer.first_id)
        self.separator = _special("sep", tokenizer.separator_id)
        self._padding = _special("pad", tokenizer.pad_id)

    def tokenize(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Ids of each distinct text, without special tokens."""
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        ids = self.tokenizer.plain_ids([valid_text(text) for text in distinct])
        return dict(zip(distinct, ids, strict=True))

    def join(self, sentences: Sequence[list[int]], condition: list[int] | None) -> JoinedIds:
        """One sequence of one or two sentences and, unless it is None or empty, a condition.

        Texts that are too long are cut at the end: the longer sentence first, then both equally,
        and the condition only when each sentence is down to a single token.
        """
        parts = [*sentences, *([condition] if condition else [])]
        room = self.max_length - 1 - len(parts)
        if room < len(parts):
            raise TertiumError(
                f"A length of {self.max_length} leaves no room for two sentences and a condition; "
                "choose a larger max_length."
            )
        asked = condition or []
        least = sum(1 for sentence in sentences if sentence)
        kept = asked[: room - least]
        lengths = shared_budget([len(s) for s in sentences], budget=room - len(kept))
        ids = [self._first]
        for sentence, length in zip(sentences, lengths, strict=True):
            ids += [*sentence[:length], self.separator]
        before = len(ids)
        if kept:
            ids += [*kept, self.separator]
        cut = len(kept) < len(asked) or sum(lengths) < sum(map(len, sentences))
        return JoinedIds(ids, before, cut)

    def join_pair(self, first: list[int], second: list[int]) -> JoinedIds:
        """Two texts as the tokenizer itself joins them; the longer one is cut first."""
        between = self.tokenizer.pair_frame.between
        room = max(self.max_length - 2 - between, 0)
        kept, begun = shared_budget([len(second), len(first)], budget=room)
        head = [self._first, *first[:begun], *[self.separator] * between]
        cut = begun + kept < len(first) + len(second)
        ids = [*head, *second[:kept], self.separator]
        return JoinedIds(ids, len(head), cut)

    def batch(
        self, rows: Sequence[JoinedIds], *, width: int | None = None
    ) -> dict[str, NDArray[np.int64]]:
        """Ids, mask and segments of a batch, padded to its longest row or to ``width``."""
        ids, real = padded([row.ids for row in rows], padding=self._padding, width=width)
        sentences = np.array([row.sentences for row in rows])
        segments = np.where(np.arange(ids.shape[1]) >= sentences[:, None], 1, 0)
        segments[~real] = _PADDING
        return {"input_ids": ids, "attention_mask": real.astype(np.int64), "segments": segments}


def _special(name: str, found: int | None) -> int:
    """The id of a special token; raises if there is none."""
    if found is None:
        raise TertiumError(
            f"This model's tokenizer has no {name} token, so it cannot read two sentences with a "
            "condition. Choose another backbone."
        )
    return found


class TripleReader:
    """Forms the sequences that a head reads from triples.

    Args:
        tokenizer: the model's tokenizer.
        layout: the head's layout.
        limit: maximum tokens that the model reads.

    Attributes:
        layout: the head's layout.
        tokenizer: joins texts to a sequence.
        has_types: whether the segments of a batch are token types.
    """

    def __init__(self, tokenizer: Tokenizer, layout: HeadLayout, *, limit: int) -> None:
        if layout.width is not None and layout.width > limit:
            raise TertiumError(
                f"This head reads {layout.width} tokens, but the model only {limit}: set its "
                f"length to at most {limit}."
            )
        self.layout = layout
        self.has_types = layout.as_pair and tokenizer.pair_frame.types
        self.tokenizer = TripleTokenizer(tokenizer, max_length=layout.width or limit)

    def sequences(self, triples: Sequence[TextTriple]) -> list[tuple[JoinedIds, ...]]:
        """Token ids of every triple's sequences; each distinct text is tokenized once."""
        stripped = [tuple(text.strip() for text in triple) for triple in triples]
        if self.layout.as_pair:  # as they are
            stripped = [triple[:2] for triple in triples]
        ids = self.tokenizer.tokenize(text for triple in stripped for text in triple)
        return [
            tuple(
                self._sequence(members, [ids[text] for text in triple])
                for members in self.layout.sequences
            )
            for triple in stripped
        ]

    def passages(self, triples: Sequence[TextTriple]) -> list[list[Span]]:
        """The passages of first and second texts in turn; none if the triple is read whole."""
        limit = self.tokenizer.max_length
        sizes = [sum(len(text.encode(errors="replace")) for text in each) for each in triples]
        long = [at for at, size in enumerate(sizes) if size + _FRAME > limit]  # a token is a byte
        shared = max(sum(member < 2 for member in members) for members in self.layout.sequences)
        found: list[list[Span]] = [[] for _ in range(2 * len(triples))]
        for at, row in zip(long, self.sequences([triples[at] for at in long]), strict=True):
            if any(sequence.cut for sequence in row):
                first, second, condition = triples[at]
                room = limit - _FRAME - self._count([condition])[0]
                found[2 * at : 2 * at + 2] = cut_texts([first, second], self._count, room // shared)
        return found

    def _count(self, texts: Sequence[str]) -> list[int]:
        ids = self.tokenizer.tokenize(texts)
        return [len(ids[text]) for text in texts]

    def batch(self, rows: Sequence[tuple[JoinedIds, ...]]) -> dict[str, NDArray[np.int64]]:
        """A batch: all first sequences, then all second ones, padded together."""
        merged = [row[at] for at in range(len(self.layout.sequences)) for row in rows]
        return self.tokenizer.batch(merged, width=self.layout.width)

    def lengths(self, rows: Sequence[tuple[JoinedIds, ...]]) -> NDArray[np.int64]:
        """Tokens of each triple in a batch; all its sequences count as much as the longest."""
        width = self.layout.width
        longest = [width or max(len(sequence.ids) for sequence in row) for row in rows]
        return np.array(longest, dtype=np.int64) * len(self.layout.sequences)

    def _sequence(self, members: tuple[int, ...], ids: list[list[int]]) -> JoinedIds:
        if self.layout.as_pair:
            return self.tokenizer.join_pair(*ids)
        sentences = [ids[at] for at in members if at < 2] or [ids[2]]
        with_condition = len(members) > 1 and 2 in members
        return self.tokenizer.join(sentences, ids[2] if with_condition else None)


def shared_budget(lengths: Sequence[int], *, budget: int) -> list[int]:
    """Lengths that fit ``budget``: the longest is shortened first, and an earlier one keeps more.

    >>> shared_budget([10, 3], budget=8), shared_budget([10, 9], budget=7)
    ([5, 3], [4, 3])
    """
    order = sorted(range(len(lengths)), key=lambda at: (lengths[at], -at))
    fitted = list(lengths)
    for done, at in enumerate(order):
        left = budget - sum(fitted[earlier] for earlier in order[:done])
        fitted[at] = min(lengths[at], left // (len(order) - done))
    return fitted
