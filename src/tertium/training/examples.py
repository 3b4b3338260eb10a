"""Training examples: texts or triples, batching, and collation to tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import BatchSampler, Dataset, SequentialSampler
from transformers import PreTrainedTokenizerBase

from tertium.models.conditional_model import ConditionalModel
from tertium.types import TextTriple

__all__ = [
    "Collator",
    "EpochBatches",
    "Examples",
    "Rewording",
    "TripleCollator",
    "TripleExamples",
    "reword",
    "token_lengths",
]

Label = float | NDArray[np.float32]
Example = tuple[tuple[str, ...], Label | None]
Group = list[tuple[TextTriple, float]]

_POOL = 50  # batches whose examples are sorted together when bucketing by length


@dataclass(frozen=True)
class Examples(Dataset[Example]):
    """Rows of one to three texts, with or without labels.

    Attributes:
        texts: the sides of each example.
        labels: graded labels, a teacher's vectors, or None.
        weights: weight of each example in the loss; None if all count the same.
    """

    texts: Sequence[tuple[str, ...]]
    labels: Sequence[float] | NDArray[np.float32] | None = None
    weights: Sequence[float] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Example:
        label = None if self.labels is None else self.labels[index]
        if self.weights is not None and label is not None:
            label = np.array([label, self.weights[index]], np.float32)
        return self.texts[index], label

    def set_epoch(self, epoch: int) -> None:
        """Called at the start of an epoch; does nothing here."""

    @property
    def sides(self) -> int:
        """Texts per example."""
        return len(self.texts[0])


class Collator:
    """Collates a batch to one tensor: all first sides, then all second sides, padded together."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._max_length = max_length

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Token ids and masks of every side, and labels if there are any."""
        texts = [text for side in zip(*(e[0] for e in examples), strict=True) for text in side]
        features = dict(
            self._tokenizer(
                texts,
                padding=True,
                truncation=True,
                max_length=self._max_length,
                return_tensors="pt",
            )
        )
        labels = [label for _, label in examples if label is not None]
        if labels:
            features["labels"] = torch.from_numpy(np.asarray(labels, dtype=np.float32))
        return features

    def lengths(self, examples: Examples) -> NDArray[np.int64]:
        """Tokens of each example's longest side, after truncation."""
        return token_lengths(examples, self._tokenizer, max_length=self._max_length)


@dataclass(frozen=True)
class TripleExamples(Examples):
    """Triples with labels, in groups that stay in one batch.

    Attributes:
        texts: triples of two sentences and a condition.
        labels: labels from 0 to 1.
        groups: rows of each example: a single row, or all conditions on the same sentences.
        rewording: rewords some conditions, different ones in each epoch.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    rewording: "Rewording | None" = None

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Group:  # type: ignore[override]
        labels = cast(Sequence[float], self.labels)
        return [(self._triple(at), labels[at]) for at in self.groups[index]]

    def set_epoch(self, epoch: int) -> None:
        """Choose which conditions to reword."""
        if self.rewording is not None:
            self.rewording.epoch = epoch

    def _triple(self, row: int) -> TextTriple:
        first, second, condition = cast(TextTriple, self.texts[row])
        if self.rewording is not None and self.rewording.chosen(row):
            condition = reword(condition)
        return first, second, condition


@dataclass
class Rewording:
    """Which conditions to reword: a share of the rows, by seed, epoch and row only."""

    share: float
    seed: int
    epoch: int = 0

    def chosen(self, row: int) -> bool:
        """Whether the condition of this row is reworded in this epoch."""
        return bool(np.random.default_rng((self.seed, self.epoch, row)).random() < self.share)


def reword(condition: str) -> str:
    """Turn a condition from a phrase into a sentence, or vice versa.

    >>> reword("The type of food."), reword("type of food")
    ('type of food', 'The type of food.')
    """
    given = condition.strip()
    phrase = given[4:] if given.lower().startswith("the ") else given
    sentence = f"The {phrase.rstrip('.')}."
    return phrase.rstrip(".") if given.lower() == sentence.lower() else sentence


class TripleCollator:
    """Collates groups to tensors: sequences of all triples, labels and group numbers."""

    def __init__(self, model: ConditionalModel) -> None:
        self._model = model

    def __call__(self, groups: Sequence[Group]) -> dict[str, Tensor]:
        """Ids, masks and segments, ``labels`` and ``groups``."""
        rows = [(triple, label, at) for at, group in enumerate(groups) for triple, label in group]
        features = self._model.features(self._model.sequences([row[0] for row in rows]))
        return {
            **features,
            "labels": torch.tensor([row[1] for row in rows], dtype=torch.float32),
            "groups": torch.tensor([row[2] for row in rows]),
        }

    def lengths(self, examples: TripleExamples) -> NDArray[np.int64]:
        """Tokens of the longest sequence of each example."""
        rows = self._model.sequences([cast(TextTriple, triple) for triple in examples.texts])
        longest = [max(len(sequence.ids) for sequence in row) for row in rows]
        return np.array([max(longest[at] for at in group) for group in examples.groups])


class EpochBatches(BatchSampler):
    """Batches of indices, shuffled each epoch; depends only on seed and epoch.

    With ``lengths`` the batches are bucketed: examples of similar length share a batch, which
    reduces padding. That changes which examples share a batch, and so the negatives of a
    contrastive objective.

    Args:
        count: number of examples.
        batch_size: examples per batch; the last batch may be smaller.
        seed: random seed.
        lengths: tokens of each example, to bucket by.
        drop_last: drop an incomplete last batch.
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        *,
        seed: int,
        lengths: NDArray[np.int64] | None = None,
        drop_last: bool = False,
    ) -> None:
        super().__init__(SequentialSampler(range(count)), batch_size, drop_last)
        self._count = count
        self._seed = seed
        self._lengths = lengths
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng((self._seed, self._epoch))
        order = generator.permutation(self._count)
        if self._lengths is not None:
            size = self.batch_size * _POOL
            pools = [order[at : at + size] for at in range(0, self._count, size)]
            order = np.concatenate([p[np.argsort(-self._lengths[p], kind="stable")] for p in pools])
        batches = [
            order[at : at + self.batch_size].tolist()
            for at in range(0, self._count, self.batch_size)
        ]
        last = batches.pop() if batches and len(batches[-1]) < self.batch_size else None
        if self._lengths is not None:
            batches = [batches[at] for at in generator.permutation(len(batches))]
        yield from batches
        if last is not None and not self.drop_last:
            yield last


def token_lengths(
    examples: Examples, tokenizer: PreTrainedTokenizerBase, *, max_length: int
) -> NDArray[np.int64]:
    """Tokens of each example's longest side, after truncation."""
    longest = np.zeros(len(examples), dtype=np.int64)
    for side in zip(*examples.texts, strict=True):
        ids = tokenizer(list(side), verbose=False, return_attention_mask=False)["input_ids"]
        longest = np.maximum(longest, np.fromiter(map(len, ids), np.int64, len(ids)))
    return np.minimum(longest, max_length)
