"""Drawn batches of tokens, and a vocabulary to read them with."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad

from tertium.types import Tokens
from tertium.views import Vocabulary

PADDING, CLS, SEP, MASK = 0, 2, 3, 4
SIZE = 30
VOCABULARY = Vocabulary(
    size=SIZE,
    padding=PADDING,
    mask=MASK,
    boundaries=(CLS, SEP),
    characters=torch.arange(SIZE) % 4 + 1,
)
SEEDS = st.integers(0, 2**31)


def batch(*rows: list[int]) -> Tokens:
    """Rows of ids, padded on the right."""
    width = max(map(len, rows))
    ids = [row + [PADDING] * (width - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    return Tokens(torch.tensor(ids), torch.tensor(mask))


def framed(*rows: list[int]) -> Tokens:
    """Rows of content between CLS and SEP."""
    return batch(*([CLS, *row, SEP] for row in rows))


def left(tokens: Tokens) -> list[list[int]]:
    """The ids of each row without padding; what the mask leaves out must be padding."""
    assert tokens.ids.shape == tokens.mask.shape
    assert (tokens.ids[tokens.mask == 0] == PADDING).all()
    lengths = tokens.mask.sum(1)
    assert torch.equal(tokens.mask, (torch.arange(tokens.mask.shape[1]) < lengths[:, None]).long())
    return [row[:length].tolist() for row, length in zip(tokens.ids, lengths, strict=True)]


def content(row: list[int]) -> list[int]:
    return [token for token in row if token not in VOCABULARY.boundaries]


def subsequence(part: list[int], whole: list[int]) -> bool:
    rest = iter(whole)
    return all(token in rest for token in part)


def padded(tokens: Tokens, extra: int) -> Tokens:
    return Tokens(pad(tokens.ids, (0, extra), value=PADDING), pad(tokens.mask, (0, extra)))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unasked(_: Tokens) -> Tensor:
    raise AssertionError("this view looks at no attention")


# Sentences of up to eight tokens of content, empty ones among them.
CONTENTS = st.lists(st.lists(st.integers(MASK + 1, SIZE - 1), max_size=8), min_size=1, max_size=4)
# Rows of anything but padding: boundaries anywhere or nowhere.
ROWS = st.lists(st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=8), min_size=1, max_size=4)
OPTIONS: dict[str, Any] = {"attend": unasked}
