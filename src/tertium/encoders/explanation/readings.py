"""An item as a model reads it: sequences of tokens, each of which belongs to a text or to none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from tertium.encoders.explanation.gradients import Attributed, integrate_gradients
from tertium.encoders.explanation.words import Word, join_pieces

__all__ = ["Owner", "Reading", "attribute", "word_alignment"]


@dataclass(frozen=True)
class Owner:
    """Which text a token comes from, and where it stands there."""

    text: int
    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """Sequences of one item, and what makes a score of them.

    Attributes:
        ids: token ids, padded to the same length.
        mask: 1 for real tokens.
        owners: of every token; None for special tokens and padding.
        silent: the token that says nothing.
        tables: the embedding tables that ids are looked up in, one, or one per tower.
        forward: ids and mask of n repetitions of the item to n scores.
        states: ids and mask to last hidden states.
        weight: of this reading's score, where a model averages several.
    """

    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    owners: tuple[tuple[Owner | None, ...], ...]
    silent: int
    tables: tuple[nn.Module, ...]
    forward: Callable[[Tensor, Tensor], Tensor]
    states: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0

    def owned(self, texts: int) -> Bool[Tensor, "s t"]:
        """Tokens of the first so many texts."""
        rows = [[o is not None and o.text < texts for o in row] for row in self.owners]
        return torch.tensor(rows, device=self.ids.device)


def attribute(
    reading: Reading, words: Sequence[Sequence[Word]], *, steps: int
) -> tuple[list[list[float]], Attributed]:
    """Integrated gradients of each word, pieces added up; the condition's tokens stay as they are.

    Args:
        reading: of the item.
        words: of each text that is explained.
        steps: points on the path.
    """
    baseline = torch.where(reading.owned(len(words)), reading.silent, reading.ids)
    found = integrate_gradients(
        reading.forward,
        reading.tables,
        reading.ids,
        reading.mask,
        baseline=baseline,
        steps=steps,
    )
    totals = []
    for text, own in enumerate(words):
        pieces = [
            (float(value), (owner.start, owner.end))
            for row, values in zip(reading.owners, found.values, strict=True)
            for owner, value in zip(row, values, strict=True)
            if owner is not None and owner.text == text
        ]
        pieces.sort(key=lambda piece: piece[1])  # a text may stand in several sequences
        totals.append(join_pieces([v for v, _ in pieces], [place for _, place in pieces], own))
    return totals, found


@torch.inference_mode()
def word_alignment(
    reading: Reading, words: Sequence[Sequence[Word]]
) -> Float[Tensor, "words others"]:
    """Cosines of the first text's words with the second's, each the mean of its pieces' states."""
    states = reading.states(reading.ids, reading.mask)
    one, two = (_word_states(reading, states, text, own) for text, own in enumerate(words))
    return normalize(one, dim=1) @ normalize(two, dim=1).T


def _word_states(reading: Reading, states: Tensor, text: int, words: Sequence[Word]) -> Tensor:
    sums = torch.zeros(len(words), states.shape[-1])
    for row, own in zip(reading.owners, states, strict=True):
        for owner, state in zip(row, own, strict=True):
            if owner is None or owner.text != text:
                continue
            for at, word in enumerate(words):
                if word.start <= owner.start < word.end:
                    sums[at] += state.cpu()
    return sums  # the direction of the sum is that of the mean
