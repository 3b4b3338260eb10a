"""An item as a model reads it: sequences of tokens, each of which belongs to a text or to none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from tertium.encoders.explanation.gradients import Attributed, Table, integrate_gradients
from tertium.encoders.explanation.words import Word

__all__ = ["Owner", "Reading", "States", "attribute", "word_alignment"]


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
        baseline: the same with every word of both texts replaced by a token that says nothing.
        owners: of every token; None for those of a condition, special ones and padding.
        tables: the embedding tables that ids are looked up in.
        forward: ids and mask of n repetitions of the item to n scores.
        states: of each encoder.
        weight: of this reading's score, where a model averages several.
    """

    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    baseline: Int[Tensor, "s t"]
    owners: tuple[tuple[Owner | None, ...], ...]
    tables: tuple[Table, ...]
    forward: Callable[[Tensor, Tensor], Tensor]
    states: tuple[States, ...]
    weight: float = 1.0


def attribute(
    reading: Reading, words: Sequence[Sequence[Word]], *, steps: int
) -> tuple[list[list[float]], Attributed]:
    """Integrated gradients of each word, pieces added up; the condition's tokens stay as they are.

    Args:
        reading: of the item.
        words: of each text that is explained.
        steps: points on the path.
    """
    found = integrate_gradients(
        reading.forward,
        reading.tables,
        reading.ids,
        reading.mask,
        baseline=reading.baseline,
        steps=steps,
    )
    totals = [[0.0] * len(own) for own in words]
    for row, values in zip(reading.owners, found.values.tolist(), strict=True):
        for owner, value in zip(row, values, strict=True):
            if owner is not None:
                totals[owner.text][owner.word] += value
    return totals, found


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
