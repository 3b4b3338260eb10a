"""Attention between words under a condition, before and after SEAVER's reallocation."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.explain.reading import word_places
from tertium.explain.words import split_words
from tertium.models.base import Model
from tertium.models.conditional import ConditionalScorer
from tertium.models.head_graphs import temperature_of
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import NoSpansError, Tokenizer
from tertium.models.tokens import valid_text
from tertium.models.triples import JoinedIds, TripleTokenizer
from tertium.types import Kind, TextTriple

__all__ = ["Focus", "attending_part", "focus", "focus_of"]

Matrix = NDArray[np.float32]

_MARKED = 5  # one word in five is marked
_REALLOCATING = ("seaver", "rand_aug")  # heads


@dataclass(frozen=True)
class Focus:
    """One triple, word by word; special tokens are left out.

    Attributes:
        words: words of both sentences.
        split: how many of them belong to the first sentence.
        condition: the condition, stripped.
        attention: attention of the last layer, averaged over heads; rows are queries.
        unconditioned: the same for the sentences without the condition.
        weights: SEAVER's W for the sentences, averaged over heads.
        relevance: attention that each word exchanges with the condition's words.
        marked: positions of the words with the most of it.
        reallocates: whether the model uses the weights; otherwise they show what SEAVER would make
            of this attention.
    """

    words: tuple[str, ...]
    split: int
    condition: str
    attention: Matrix
    unconditioned: Matrix
    weights: Matrix
    relevance: Matrix
    marked: tuple[int, ...]
    reallocates: bool = False

    @property
    def steps(self) -> tuple[Matrix, ...]:
        """Attention without the condition, with it, and reallocated if the model does that."""
        return (self.unconditioned, self.attention, *([self.weights] if self.reallocates else []))

    @property
    def shares(self) -> list[list[float]]:
        """Attention that each word receives at each of these steps; 1 is an even share."""
        received = [np.nanmean(matrix, axis=0) for matrix in self.steps]
        return [(values / values.mean()).tolist() for values in received]

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where a model does not relate two words."""

        def rows(matrix: Matrix) -> list[list[float | None]]:
            return [[None if math.isnan(v) else v for v in row] for row in matrix.tolist()]

        return {
            "words": list(self.words),
            "split": self.split,
            "condition": self.condition,
            "marked": list(self.marked),
            "relevance": self.relevance.tolist(),
            "without_condition": rows(self.unconditioned),
            "attention": rows(self.attention),
            "reallocated": rows(self.weights),
        }


@dataclass(frozen=True)
class _Attended:
    """The attention in one sequence: words of its sentences, and blocks of the matrices."""

    words: list[str]
    first: int
    attention: Matrix
    unconditioned: Matrix
    weights: Matrix
    relevance: Matrix


@dataclass(frozen=True)
class _Looker:
    """How to tokenize sentences and condition, and to compute their attention.

    Attributes:
        tokenizer: tokenizes texts.
        joiner: joins them to a sequence.
        attention: computes the weights ``[rows, h, t, t]`` of sequences.
        temperature: temperature of the reallocation.
    """

    tokenizer: Tokenizer
    joiner: TripleTokenizer
    attention: Callable[[Sequence[JoinedIds]], Matrix]
    temperature: float = 1.0


def focus(
    part: ConditionalScorer | TextEncoder,
    triple: TextTriple,
    *,
    baseline: ConditionalScorer | TextEncoder | None = None,
) -> Focus:
    """Attention between the words of two sentences, and how a condition reallocates it.

    Args:
        part: a model that takes conditions, or an encoder, which reads the triple as one sequence.
            A model that reads each sentence separately with the condition has no attention between
            the sentences: there the matrices are NaN.
        triple: two sentences and a condition.
        baseline: a model whose attention to show instead (default: the model's own).
    """
    if not all(split_words(text) for text in triple):
        raise TertiumError("Two sentences and a condition are required; none may be empty.")
    sequences = part.layout.sequences if isinstance(part, ConditionalScorer) else ((0, 1, 2),)
    together = [members for members in sequences if 2 in members and len(members) > 1]
    if not together:
        raise TertiumError(
            f"{part.name} reads sentences and condition separately, so there is no attention "
            "between them. Use a model with head cross, seaver or bi."
        )
    found = _read(_looker(part), triple, together)
    attention, unconditioned = found.attention, found.unconditioned
    if baseline is not None:
        other = _read(_encoder_looker(*baseline.readers), triple, together)
        if other.words != found.words:
            raise TertiumError("The two models truncate these sentences differently.")
        attention, unconditioned = other.attention, other.unconditioned
    count = max(1, len(found.words) // _MARKED)
    marked = np.sort(np.argsort(-found.relevance, kind="stable")[:count]).tolist()
    return Focus(
        tuple(found.words),
        found.first,
        triple[2].strip(),
        attention,
        unconditioned,
        found.weights,
        found.relevance,
        tuple(marked),
        reallocates=_reallocates(part),
    )


def attending_part(model: Model) -> ConditionalScorer | TextEncoder:
    """The part whose attention to show; of several members, one that reallocates it."""
    if not model.takes_conditions:
        return model.encoder
    scorers: list[ConditionalScorer] = [member.model for member in model.members]
    return min(scorers, key=lambda scorer: (not _shows(scorer), not _reallocates(scorer)))


def focus_of(model: Model, item: Sequence[str]) -> Focus | None:
    """The attention of a model that reads sentences and condition together, else None."""
    if not model.takes_conditions or not all(split_words(text) for text in item):
        return None
    if not any(_shows(member.model) for member in model.members):
        return None
    return focus(attending_part(model), (item[0], item[1], item[2]))


def _shows(scorer: ConditionalScorer) -> bool:
    return scorer.layout.together and scorer.readers[0].kind is not Kind.TWIN


def _reallocates(part: ConditionalScorer | TextEncoder) -> bool:
    return isinstance(part, ConditionalScorer) and part.head_config["kind"] in _REALLOCATING


def _looker(part: ConditionalScorer | TextEncoder) -> _Looker:
    if not isinstance(part, ConditionalScorer):
        return _encoder_looker(part)

    def attention(rows: Sequence[JoinedIds]) -> Matrix:
        found = part.look_at(rows)[1]
        if found is None:
            raise TertiumError(f"The attention of {part.name} is not available.")
        return found

    temperature = 1.0
    if _reallocates(part):
        temperature = temperature_of(part.head_config, part.head_weights)
    (encoder,) = part.readers
    return _Looker(encoder.text_tokenizer, part.reader.tokenizer, attention, temperature)


def _encoder_looker(reader: TextEncoder) -> _Looker:
    """The last layer of an encoder on torch."""
    encoder = reader.encoder
    joiner = TripleTokenizer(encoder.text_tokenizer, max_length=encoder.max_length)

    def attention(rows: Sequence[JoinedIds]) -> Matrix:
        import torch

        from tertium.models.encoder import evaluating

        batch = joiner.batch(rows)
        names = ("input_ids", "attention_mask")
        inputs = {name: torch.from_numpy(batch[name]).to(encoder.device) for name in names}
        with torch.inference_mode(), evaluating(encoder.model):
            found = encoder.forward(inputs, attention_layers=(-1,)).attention
        if found is None:
            raise TertiumError(f"The attention of {encoder.name} is not available.")
        return found[-1].float().cpu().numpy()

    return _Looker(encoder.text_tokenizer, joiner, attention)


def _read(looker: _Looker, triple: TextTriple, sequences: Sequence[tuple[int, ...]]) -> _Attended:
    found = [
        _sequence(looker, [triple[at] for at in members if at < 2], triple[2])
        for members in sequences
    ]
    return found[0] if len(found) == 1 else _beside(*found)


def _sequence(looker: _Looker, sentences: Sequence[str], condition: str) -> _Attended:
    """Attention in one sequence of sentences and condition, with word pieces joined to words."""
    texts = [text.strip() for text in (*sentences, condition)]
    joiner = looker.joiner
    ids = joiner.tokenize(texts)
    row = joiner.join([ids[text] for text in texts[:-1]], ids[texts[-1]])
    lengths = _kept(row.ids, joiner.separator)
    kept = [ids[text][:length] for text, length in zip(texts, lengths, strict=True)]
    attention, unasked = looker.attention([row, joiner.join(kept[:-1], None)])
    attention = attention[:, : len(row.ids), : len(row.ids)]
    weights = reallocated(attention, row.sentences, temperature=looker.temperature)
    words: list[str] = []
    pieces: list[list[int]] = []
    firsts, start = [], 1
    for text, length in zip(texts, lengths, strict=True):
        for word, tokens in _words(looker.tokenizer, text, length):
            words.append(word)
            pieces.append([start + token for token in tokens])
        start += length + 1
        firsts.append(len(words))
    own = firsts[-2]
    joined = _by_word(attention, pieces)
    asked = slice(own, len(words))
    relevance = joined[:own, asked].sum(axis=1) + joined[asked, :own].mean(axis=0)
    return _Attended(
        words[:own],
        firsts[0],
        joined[:own, :own],
        _by_word(unasked, pieces[:own]),
        _by_word(weights, pieces[:own]),
        relevance,
    )


def reallocated(attention: Matrix, sentences: int, *, temperature: float = 1.0) -> Matrix:
    """``functional.reallocation.reweighting`` of one sequence without padding, in numpy.

    Args:
        attention: weights ``[h, t, t]``.
        sentences: number of tokens that belong to the sentences; the rest is the condition.
        temperature: divides the products.
    """
    asks = np.arange(attention.shape[-1]) >= sentences
    same = asks[:, None] == asks
    crossing = np.where(same, 0, attention)
    products = np.where(same, crossing @ crossing / temperature, -np.inf)
    powers = np.exp(products - products.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def _kept(ids: list[int], separator: int) -> list[int]:
    """Tokens of each text between the special ones."""
    ends = [at for at, token in enumerate(ids) if token == separator]
    return [end - start for start, end in zip([1, *(e + 1 for e in ends[:-1])], ends, strict=True)]


def _words(tokenizer: Tokenizer, text: str, length: int) -> list[tuple[str, list[int]]]:
    """Words that have a piece among the first ``length`` tokens of a text, with these pieces.

    If the tokenizer does not map tokens to words, each token is shown by itself.
    """
    pieces: dict[int, list[int]] = {}
    with contextlib.suppress(NoSpansError):
        for token, place in enumerate(word_places(tokenizer, text)[:length]):
            if place is not None:
                pieces.setdefault(place, []).append(token)
    if pieces:
        words = split_words(valid_text(text))
        return [(words[place].text, tokens) for place, tokens in pieces.items()]
    names = tokenizer.names(valid_text(text))
    return [(name, [token]) for token, name in enumerate(names[:length])]


def _by_word(maps: Matrix, words: Sequence[list[int]]) -> Matrix:
    """Average over heads and the pieces of both words, so that long words do not count more."""
    matrix = maps.mean(axis=0)
    columns = np.stack([matrix[:, pieces].mean(axis=1) for pieces in words], axis=1)
    return np.stack([columns[pieces].mean(axis=0) for pieces in words])


def _beside(first: _Attended, second: _Attended) -> _Attended:
    """Two sequences as one, with nothing between them."""

    def blocks(one: Matrix, two: Matrix) -> Matrix:
        joined = np.full((len(one) + len(two),) * 2, np.nan, np.float32)
        joined[: len(one), : len(one)], joined[len(one) :, len(one) :] = one, two
        return joined

    return _Attended(
        first.words + second.words,
        len(first.words),
        blocks(first.attention, second.attention),
        blocks(first.unconditioned, second.unconditioned),
        blocks(first.weights, second.weights),
        np.concatenate([first.relevance, second.relevance]),
    )
