from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tertium
from tertium.models import Encoder
from tertium.training.examples import Collator, EpochBatches, Examples, token_lengths
from tests.training.toys import toy_examples


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    loaded = tertium.load(tiny_bert, engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


SIZES = {"count": st.integers(1, 200), "size": st.integers(1, 9), "seed": st.integers(0, 99)}


def lengths_of(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 40, count)


@given(**SIZES, epoch=st.integers(0, 5), bucket=st.booleans())
def test_every_index_comes_once_an_epoch(
    count: int, size: int, seed: int, epoch: int, bucket: bool
) -> None:
    lengths = lengths_of(count, seed) if bucket else None
    batches = EpochBatches(count, size, seed=seed, lengths=lengths)
    batches.set_epoch(epoch)
    found = list(batches)
    assert sorted(index for batch in found for index in batch) == list(range(count))
    assert [len(batch) for batch in found[:-1]] == [size] * (len(found) - 1)
    assert len(found) == len(batches)
    assert list(batches) == found  # iterating does not change the order

    again = EpochBatches(count, size, seed=seed, lengths=lengths)
    again.set_epoch(epoch)
    assert list(again) == found  # seed and epoch alone decide


@given(**SIZES, bucket=st.booleans())
def test_a_last_batch_that_is_not_full_can_be_left_out(
    count: int, size: int, seed: int, bucket: bool
) -> None:
    lengths = lengths_of(count, seed) if bucket else None
    batches = EpochBatches(count, size, seed=seed, lengths=lengths, drop_last=True)
    found = list(batches)
    assert len(found) == len(batches) == count // size
    assert all(len(batch) == size for batch in found)
    assert len({index for batch in found for index in batch}) == len(found) * size


@pytest.mark.parametrize("bucket", [False, True])
def test_epochs_and_seeds_differ(bucket: bool) -> None:
    lengths = lengths_of(60, 0) if bucket else None
    orders = []
    for seed, epoch in [(1, 0), (1, 1), (1, 2), (2, 0)]:
        batches = EpochBatches(60, 4, seed=seed, lengths=lengths)
        batches.set_epoch(epoch)
        orders.append(list(batches))
    assert all(a != b for at, a in enumerate(orders) for b in orders[:at])


def test_buckets_waste_less_and_are_shuffled() -> None:
    lengths = lengths_of(1000, 3)

    def padded(batches: EpochBatches) -> int:
        return sum(len(batch) * int(lengths[batch].max()) for batch in batches)

    plain = EpochBatches(1000, 8, seed=0)
    bucketed = EpochBatches(1000, 8, seed=0, lengths=lengths)
    assert padded(bucketed) < 1.1 * lengths.sum() < 1.5 * lengths.sum() < padded(plain)
    longest = [int(lengths[batch].max()) for batch in bucketed]
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)


def test_the_collator_puts_the_sides_one_after_the_other(encoder: Encoder) -> None:
    examples = Examples([("the cat", "a dog sleeps ."), ("b", "c d")], [1.0, 0.5])
    batch = Collator(encoder.tokenizer, max_length=64)([examples[0], examples[1]])
    texts = encoder.tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True)
    assert texts == ["the cat", "b", "a dog sleeps.", "c d"]
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (4, 6)
    assert batch["attention_mask"].sum(1).tolist() == [4, 3, 6, 4]
    assert torch.equal(batch["labels"], torch.tensor([1.0, 0.5]))


def test_the_collator_cuts_and_needs_no_labels(encoder: Encoder) -> None:
    examples = Examples([("a b c d e f", "a", "b")])
    batch = Collator(encoder.tokenizer, max_length=4)([examples[0]])
    assert batch["input_ids"].shape == (3, 4)
    assert "labels" not in batch
    assert examples.sides == 3


def test_token_lengths_are_the_longest_sides(encoder: Encoder) -> None:
    examples = Examples([("a", "a b c"), ("a b c d e f g", "a"), ("a", "b")], [0.0, 1.0, 2.0])
    assert token_lengths(examples, encoder.tokenizer, max_length=6).tolist() == [5, 6, 3]
    toys = toy_examples()
    collate = Collator(encoder.tokenizer, max_length=64)
    for at, length in enumerate(token_lengths(toys, encoder.tokenizer, max_length=64)):
        assert collate([toys[at]])["input_ids"].shape[1] == length
