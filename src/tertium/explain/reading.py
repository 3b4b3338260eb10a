"""An item as a model reads it: tokens, the words they belong to, and their last states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.explain.words import Place, Word, split_words, word_of
from tertium.models.base import Embedder, Model, unit_rows
from tertium.models.conditional import ConditionalScorer
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import Tokenizer
from tertium.models.tokens import padded, valid_text
from tertium.models.triples import JoinedIds

__all__ = ["Places", "Reading", "read_item", "word_alignment", "word_places"]

Places = tuple[Place | None, ...]  # the word of each token of a sequence


@dataclass(frozen=True)
class Reading:
    """Sequences of one item, as one encoder reads them.

    Attributes:
        reader: the encoder, or the scorer that it is part of.
        ids: token ids, padded to the same length.
        mask: 1 for real tokens.
        places: the word of each token; None for the condition, special tokens and padding.
        weight: weight of this encoder or score, if a model has several.
        states: computes the last hidden states ``[s, t, d]``.
    """

    reader: Any
    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    places: tuple[Places, ...]
    weight: float
    states: Callable[[], NDArray[Any]]


def read_item(model: Model, item: Sequence[str]) -> list[Reading]:
    """A pair or triple as each encoder or scorer inside reads it.

    Raises ``TertiumError`` if the model only computes scores.
    """
    if not model.members:
        raise TertiumError(f"{model.name} only computes scores, so words cannot be aligned.")
    if model.takes_conditions:
        return [_read_triple(each.model, item, each.weight) for each in model.members]
    if not isinstance(model.vector_model, Embedder):
        raise TertiumError(f"{model.name} reads both texts together: only occlusion is available.")
    weights: dict[int, float] = {}  # an encoder that occurs twice counts twice, but reads once
    readers: dict[int, TextEncoder] = {}
    for member in model.vector_model.members:
        (reader,) = member.model.readers
        readers[id(reader)] = reader
        weights[id(reader)] = weights.get(id(reader), 0.0) + member.weight
    return [_read_pair(reader, item, weights[key]) for key, reader in readers.items()]


def word_alignment(
    readings: Sequence[Reading], words: Sequence[Sequence[Word]]
) -> NDArray[np.float32]:
    """Cosines of the first text's words with the second's, each the mean of its pieces' states.

    With several encoders, their weighted mean; a word that was truncated has 0 with all others.
    """
    aligned = np.zeros((len(words[0]), len(words[1])), np.float32)
    total = sum(abs(reading.weight) for reading in readings)
    for reading in readings:
        states = reading.states()
        # The sum over a word's pieces has the direction of their mean.
        sums = [np.zeros((len(own), states.shape[-1]), np.float32) for own in words]
        for row, own in zip(reading.places, states, strict=True):
            for place, state in zip(row, own, strict=True):
                if place is not None:
                    text, word = place
                    sums[text][word] += state
        one, two = (unit_rows(part) for part in sums)
        aligned += abs(reading.weight) / total * (one @ two.T)
    return aligned.clip(-1, 1)


def word_places(tokenizer: Tokenizer, text: str) -> list[int | None]:
    """The word of each token of a text, which is stripped first."""
    text = valid_text(text.strip())
    words = split_words(text)
    return [word_of(span, words) for span in tokenizer.plain_spans(text)]


def _read_pair(encoder: TextEncoder, texts: Sequence[str], weight: float) -> Reading:
    """Two texts, each a sequence of its own."""
    prompt, tokenizer = encoder.prompt, encoder.text_tokenizer
    framed = [tokenizer.framed_spans(prompt + text, encoder.max_length) for text in texts]
    ids, real = padded(
        [row for row, _ in framed], padding=tokenizer.pad_id or 0, left=tokenizer.pads_left
    )
    places = []
    for text, (_, spans) in enumerate(framed):
        words = split_words(texts[text])
        # Special tokens have an empty range, and the prompt ends where the text begins.
        found = iter((max(start - len(prompt), 0), end - len(prompt)) for start, end in spans)
        # Padding may be on either side.
        own = [word_of(next(found), words) if at else None for at in real[text]]
        places.append(_places(text, own))
    mask = real.astype(np.int64)
    return Reading(
        encoder, ids, mask, tuple(places), weight, lambda: encoder.token_states(ids, mask)
    )


def _read_triple(scorer: ConditionalScorer, texts: Sequence[str], weight: float) -> Reading:
    """Two sentences and a condition, in the sequences that the model makes of them."""
    (encoder,) = scorer.readers
    rows = scorer.reader.sequences([(texts[0], texts[1], texts[2])])[0]
    batch = scorer.reader.tokenizer.batch(rows, width=scorer.layout.width)
    found = [
        _places(at, word_places(encoder.text_tokenizer, text)) for at, text in enumerate(texts)
    ]
    found[2] = (None,) * len(found[2])  # the condition keeps its words
    ids = batch["input_ids"]
    places = tuple(
        _joined(row, [found[at] for at in members], scorer.reader.tokenizer.separator, len(ids[0]))
        for members, row in zip(scorer.layout.sequences, rows, strict=True)
    )
    mask = batch["attention_mask"]
    return Reading(scorer, ids, mask, places, weight, lambda: scorer.look_at(rows)[0])


def _joined(row: JoinedIds, texts: Sequence[Places], separator: int, width: int) -> Places:
    """Words of a sequence whose texts, perhaps truncated, are divided by special tokens."""
    left = iter(texts)
    own = iter(next(left))
    found: list[Place | None] = [None]
    for token in row.ids[1:]:
        if token == separator:
            found.append(None)
            own = iter(next(left, ()))
        else:
            found.append(next(own))
    return (*found, *[None] * (width - len(found)))


def _places(text: int, words: Sequence[int | None]) -> Places:
    return tuple(None if word is None else (text, word) for word in words)
