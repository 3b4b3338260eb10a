"""Where attention goes under a condition: before SEAVER's reallocation, and after it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.explain.tokens import word_places
from tertium.explain.words import split_words
from tertium.functional.reallocation import reweighting
from tertium.heads import ConditionalHead, SeaverHead
from tertium.models.base import Model
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import Encoder, evaluating
from tertium.models.tokens import valid_text
from tertium.models.triples import JoinedIds, TripleTokenizer
from tertium.types import Kind, TextTriple

__all__ = ["Focus", "attending_part", "focus", "focus_of"]

_MARKED = 5  # one word in five is marked


@dataclass(frozen=True)
class Focus:
    """One triple, word by word; special tokens are left out.

    Attributes:
        words: of both sentences, whole.
        split: how many of them belong to the first sentence.
        condition: as it was read.
        attention: of the last layer, the mean over heads; a row is the word that looks.
        unconditioned: the same where the sentences are read without the condition.
        weights: SEAVER's W of the sentence part, the mean over heads.
        relevance: attention that each word exchanges with the condition's words.
        marked: places of the words with most of it.
        reallocates: whether the weights enter a score; else they say what SEAVER would make of this
            attention.
    """

    words: tuple[str, ...]
    split: int
    condition: str
    attention: Float[Tensor, "w w"]
    unconditioned: Float[Tensor, "w w"]
    weights: Float[Tensor, "w w"]
    relevance: Float[Tensor, " w"]
    marked: tuple[int, ...]
    reallocates: bool = False

    @property
    def steps(self) -> tuple[Float[Tensor, "w w"], ...]:
        """What a score is made of: attention without the condition, with it, and reallocated."""
        return (self.unconditioned, self.attention, *([self.weights] if self.reallocates else []))

    @property
    def shares(self) -> list[list[float]]:
        """What each word receives from the others at each of these steps; 1 is an even share."""
        received = [matrix.nanmean(dim=0) for matrix in self.steps]
        return [(values / values.mean()).tolist() for values in received]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; what a model does not relate is null."""

        def rows(matrix: Tensor) -> list[list[float | None]]:
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
    """What one sequence of a model shows: words of its sentences, and blocks of the matrices."""

    words: list[str]
    first: int
    attention: Tensor
    unconditioned: Tensor
    weights: Tensor
    relevance: Tensor


def focus(
    encoder: Encoder,
    triple: TextTriple,
    *,
    head: ConditionalHead | None = None,
    baseline: Encoder | None = None,
) -> Focus:
    """Attention between the words of two sentences, and how a condition reallocates it.

    Args:
        encoder: of a model that takes conditions, or any other.
        triple: two sentences and a condition.
        head: of that model (default: the triple is read as one sequence). One that reads each
            sentence by itself with the condition has nothing to show between the sentences: there
            the matrices are NaN.
        baseline: whose attention to show (default: the model's own, before reallocation).
    """
    if not all(split_words(text) for text in triple):
        raise TertiumError("Two sentences and a condition are needed, and none may be empty.")
    sequences = [(0, 1, 2)] if head is None else head.sequences
    together = [members for members in sequences if 2 in members and len(members) > 1]
    if not together:
        raise TertiumError(
            f"{encoder.name} reads sentences and condition apart, so that none attends to the "
            "other. Take a model with head cross, seaver or bi."
        )
    reallocating = head if isinstance(head, SeaverHead) else None
    found = _read(encoder, triple, together, reallocating)
    attention, unconditioned = found.attention, found.unconditioned
    if baseline is not None:
        other = _read(baseline, triple, together, None)
        if other.words != found.words:
            raise TertiumError("The two models do not keep the same words of these sentences.")
        attention, unconditioned = other.attention, other.unconditioned
    count = max(1, len(found.words) // _MARKED)
    marked = found.relevance.topk(count).indices.sort().values.tolist()
    return Focus(
        tuple(found.words),
        found.first,
        triple[2].strip(),
        attention,
        unconditioned,
        found.weights,
        found.relevance,
        tuple(marked),
        reallocates=reallocating is not None,
    )


def attending_part(model: Model) -> tuple[Encoder, ConditionalHead | None]:
    """Encoder and head whose attention is shown; of several members, one that reallocates it."""
    if not model.takes_conditions:
        return model.encoder, None
    scorers = [member.model for member in model.members]
    best = min(scorers, key=lambda scorer: (not _shows(scorer), not scorer.head.reallocates))
    return best.encoder, best.head


def focus_of(model: Model, item: Sequence[str]) -> Focus | None:
    """Where attention goes in a model that reads sentences and condition together, else None."""
    if not model.takes_conditions or not all(split_words(text) for text in item):
        return None
    if not any(_shows(member.model) for member in model.members):
        return None
    encoder, head = attending_part(model)
    return focus(encoder, (item[0], item[1], item[2]), head=head)


def _shows(scorer: ConditionalScorer) -> bool:
    return scorer.layout.together and scorer.encoder.kind is not Kind.TWIN


def _read(
    encoder: Encoder,
    triple: TextTriple,
    sequences: Sequence[tuple[int, ...]],
    head: SeaverHead | None,
) -> _Attended:
    found = [
        _sequence(encoder, head, [triple[at] for at in members if at < 2], triple[2])
        for members in sequences
    ]
    return found[0] if len(found) == 1 else _beside(*found)


def _sequence(
    encoder: Encoder, head: SeaverHead | None, sentences: Sequence[str], condition: str
) -> _Attended:
    """Read sentences and condition as one sequence; word pieces are joined to words."""
    texts = [text.strip() for text in (*sentences, condition)]
    joiner = TripleTokenizer(encoder.text_tokenizer, max_length=encoder.max_length)
    ids = joiner.tokenize(texts)
    row = joiner.join([ids[text] for text in texts[:-1]], ids[texts[-1]])
    lengths = _kept(row.ids, joiner.separator)
    kept = [ids[text][:length] for text, length in zip(texts, lengths, strict=True)]
    batch, attention = _attention(encoder, head, joiner, row)
    _, unasked = _attention(encoder, head, joiner, joiner.join(kept[:-1], None))
    temperature = 1.0 if head is None else head.augmentation.temperature
    weights = reweighting(attention, batch["segments"], temperature=temperature)
    words: list[str] = []
    pieces: list[list[int]] = []
    firsts, start = [], 1
    for text, length in zip(texts, lengths, strict=True):
        for word, tokens in _words(encoder, text, length):
            words.append(word)
            pieces.append([start + token for token in tokens])
        start += length + 1
        firsts.append(len(words))
    own = firsts[-2]
    joined = _by_word(attention, pieces)
    asked = slice(own, len(words))
    relevance = joined[:own, asked].sum(dim=1) + joined[asked, :own].mean(dim=0)
    return _Attended(
        words[:own],
        firsts[0],
        joined[:own, :own],
        _by_word(unasked, pieces[:own]),
        _by_word(weights, pieces[:own]),
        relevance,
    )


@torch.inference_mode()
def _attention(
    encoder: Encoder, head: SeaverHead | None, joiner: TripleTokenizer, row: JoinedIds
) -> tuple[dict[str, Tensor], Float[Tensor, "1 h t t"]]:
    """One sequence as a batch, and the attention in it that counts."""
    arrays = joiner.batch([row])
    batch = {key: torch.from_numpy(x).to(encoder.device) for key, x in arrays.items()}
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    layers = (-1,) if head is None else head.attention_layers
    with evaluating(encoder.model):
        encoded = encoder.forward(inputs, attention_layers=layers)
    if encoded.attention is None:
        raise TertiumError(f"{encoder.name} shows no attention.")
    return batch, encoded.attention[-1] if head is None else head.attention(encoded)


def _kept(ids: list[int], separator: int) -> list[int]:
    """Tokens of each text between the special ones."""
    ends = [at for at, token in enumerate(ids) if token == separator]
    return [end - start for start, end in zip([1, *(e + 1 for e in ends[:-1])], ends, strict=True)]


def _words(encoder: Encoder, text: str, length: int) -> list[tuple[str, list[int]]]:
    """Words that have a piece among the first ``length`` tokens of a text, with these pieces.

    Where a tokenizer does not say which word a token belongs to, each token is shown by itself.
    """
    tokenizer = encoder.tokenizer
    pieces: dict[int, list[int]] = {}
    if tokenizer.is_fast:
        for token, place in enumerate(word_places(tokenizer, text)[:length]):
            if place is not None:
                pieces.setdefault(place, []).append(token)
    if pieces:
        words = split_words(valid_text(text))
        return [(words[place].text, tokens) for place, tokens in pieces.items()]
    names = tokenizer.tokenize(valid_text(text), add_special_tokens=False)
    return [(name, [token]) for token, name in enumerate(names[:length])]


@torch.inference_mode()
def _by_word(maps: Float[Tensor, "1 h t t"], words: Sequence[list[int]]) -> Tensor:
    """The mean over heads and the pieces of both words: more pieces do not make a word more."""
    matrix = maps[0].mean(dim=0).cpu()
    columns = torch.stack([matrix[:, pieces].mean(dim=1) for pieces in words], dim=1)
    return torch.stack([columns[pieces].mean(dim=0) for pieces in words])


def _beside(first: _Attended, second: _Attended) -> _Attended:
    """Two sequences as one, with nothing between them."""

    def blocks(one: Tensor, two: Tensor) -> Tensor:
        joined = torch.full((len(one) + len(two),) * 2, torch.nan)
        joined[: len(one), : len(one)], joined[len(one) :, len(one) :] = one, two
        return joined

    return _Attended(
        first.words + second.words,
        len(first.words),
        blocks(first.attention, second.attention),
        blocks(first.unconditioned, second.unconditioned),
        blocks(first.weights, second.weights),
        torch.cat([first.relevance, second.relevance]),
    )
