"""An item as a model reads it: sequences of tokens, each of which belongs to a text or to none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from tertium.explain.gradients import Table, integrate_gradients
from tertium.explain.words import Word

__all__ = ["Owner", "Reading", "States", "WordsAttributed", "attribute", "word_alignment"]


@dataclass(frozen=True)
class Owner:
    """The text and the word in it that a token is a piece of."""

    text: int
    word: int


@dataclass(frozen=True)
class States:
    """Last hidden states of some of a reading's sequences, as one encoder has them.

    Attributes:
        rows: which sequences the encoder reads.
        of: ids and mask to states.
        weight: of this encoder, where a model has several.
    """

    rows: slice
    of: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0


@dataclass(frozen=True)
class Reading:
    """Sequences of one item, and what makes a score of them.

    Attributes:
        ids: token ids, padded to the same length.
        mask: 1 for real tokens.
        silent: of each sequence, the token that says nothing.
        owners: of every token; None for those of a condition, special ones and padding.
        tables: the embedding tables that ids are looked up in.
        forward: ids and mask of n repetitions of the item to n scores.
        states: of each encoder.
        weight: of this reading's score, where a model averages several.
    """

    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    silent: Int[Tensor, "s 1"]
    owners: tuple[tuple[Owner | None, ...], ...]
    tables: tuple[Table, ...]
    forward: Callable[[Tensor, Tensor], Tensor]
    states: tuple[States, ...]
    weight: float = 1.0

    def without(self, text: int) -> Int[Tensor, "s t"]:
        """Ids where each word of a text is replaced by the token that says nothing."""
        own = [[owner is not None and owner.text == text for owner in row] for row in self.owners]
        return torch.where(torch.tensor(own, device=self.ids.device), self.silent, self.ids)


@dataclass(frozen=True)
class WordsAttributed:
    """What each word of a text contributes.

    Attributes:
        values: one per word; they sum to the difference of the two scores.
        score: of the item.
        baseline: where the text says nothing.
    """

    values: tuple[float, ...]
    score: float
    baseline: float


def attribute(reading: Reading, text: int, words: Sequence[Word], *, steps: int) -> WordsAttributed:
    """Integrated gradients of each word of one text, on the path from a text that says nothing.

    All else stays as it is: were both texts silent, they would be alike. Pieces are added up.

    Args:
        reading: of the item.
        text: 0 or 1.
        words: of that text.
        steps: points on the path.
    """
    found = integrate_gradients(
        reading.forward,
        reading.tables,
        reading.ids,
        reading.mask,
        baseline=reading.without(text),
        steps=steps,
    )
    totals = [0.0] * len(words)
    for row, values in zip(reading.owners, found.values.tolist(), strict=True):
        for owner, value in zip(row, values, strict=True):
            if owner is not None and owner.text == text:
                totals[owner.word] += value
    return WordsAttributed(tuple(totals), found.score, found.baseline)


@torch.inference_mode()
def word_alignment(
    reading: Reading, words: Sequence[Sequence[Word]]
) -> Float[Tensor, "words others"]:
    """Cosines of the first text's words with the second's, each the mean of its pieces' states.

    With several encoders, the weighted mean of theirs; a word that was cut off has 0 with all.
    """
    aligned = torch.zeros(len(words[0]), len(words[1]))
    total = sum(abs(states.weight) for states in reading.states)
    for states in reading.states:
        found = states.of(reading.ids[states.rows], reading.mask[states.rows]).float().cpu()
        # The sum over a word's pieces has the direction of their mean.
        sums = [torch.zeros(len(own), found.shape[-1]) for own in words]
        for row, own in zip(reading.owners[states.rows], found, strict=True):
            for owner, state in zip(row, own, strict=True):
                if owner is not None:
                    sums[owner.text][owner.word] += state
        one, two = (normalize(part, dim=1) for part in sums)
        aligned += abs(states.weight) / total * (one @ two.T)
    return aligned.clamp(-1, 1)
