import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tertium.errors import TertiumError
from tertium.types import Tokens
from tertium.views import VIEWS, Vocabulary
from tertium.views.base import resample
from tests.views.toys import (
    CLS,
    MASK,
    PADDING,
    ROWS,
    SEEDS,
    SEP,
    VOCABULARY,
    batch,
    framed,
    generator,
    left,
    unasked,
)


@given(rows=ROWS, seed=SEEDS, most=st.integers(0, 3))
def test_resample_equals_a_loop(rows: list[list[int]], seed: int, most: int) -> None:
    tokens = batch(*rows)
    counts = torch.randint(0, most + 1, tokens.ids.shape, generator=generator(seed))
    found = resample(tokens, counts, padding=PADDING)
    width = tokens.ids.shape[1]
    expected = [
        [token for token, count in zip(row, times, strict=False) for _ in range(count)]
        for row, times in zip(rows, counts.tolist(), strict=True)
    ]
    assert left(found) == expected
    assert found.ids.shape[1] == max(width, *map(len, expected))
    assert found.ids.dtype == tokens.ids.dtype and found.mask.dtype == tokens.mask.dtype


@given(rows=ROWS, seed=SEEDS, most=st.integers(1, 3), twice=st.booleans())
def test_resample_tells_where_tokens_stood(
    rows: list[list[int]], seed: int, most: int, twice: bool
) -> None:
    tokens = batch(*rows)
    assert tokens.sources is None
    found = tokens
    for at in range(1 + twice):  # stacked views lead back to the very first tokens
        counts = torch.randint(0, most + 1, found.ids.shape, generator=generator(seed + at))
        found = resample(found, counts, padding=PADDING)
    assert found.sources is not None and found.sources.shape == found.ids.shape
    assert found.sources.min() >= 0 and found.sources.max() < tokens.ids.shape[1]
    real = found.mask.bool()
    assert torch.equal(tokens.ids.gather(1, found.sources)[real], found.ids[real])
    assert tokens.mask.gather(1, found.sources)[real].all()
    for row, mask in zip(found.sources.tolist(), found.mask.tolist(), strict=True):
        kept = row[: sum(mask)]
        assert kept == sorted(kept)


@pytest.mark.parametrize("names", [["delete", "repeat"], ["repeat", "span_mask", "delete"]])
def test_stacked_views_keep_the_sources(names: list[str]) -> None:
    tokens, attend = framed([*range(5, 15)], [*range(15, 20)], [20]), unasked
    changed = tokens
    for at, name in enumerate(names):
        changed = VIEWS[name](VOCABULARY)(changed, attend=attend, generator=generator(at))
    assert changed.sources is not None
    real = changed.mask.bool() & (changed.ids != MASK)
    assert torch.equal(tokens.ids.gather(1, changed.sources)[real], changed.ids[real])
    assert not torch.equal(changed.ids, tokens.ids)


def test_a_view_that_moves_nothing_has_no_sources() -> None:
    tokens = framed([5, 6], [7])
    assert VIEWS["dropout"](VOCABULARY)(tokens, attend=unasked).sources is None


def test_resample_leaves_its_input_alone() -> None:
    tokens = batch([5, 6, 7], [8])
    before = tokens.ids.clone(), tokens.mask.clone()
    resample(tokens, torch.zeros(2, 3, dtype=torch.long), padding=PADDING)
    assert torch.equal(tokens.ids, before[0]) and torch.equal(tokens.mask, before[1])


def test_content_is_neither_padding_nor_boundary() -> None:
    tokens = batch([CLS, 5, 6, SEP], [CLS, SEP])
    expected = torch.tensor([[False, True, True, False], [False] * 4])
    assert torch.equal(VOCABULARY.content(tokens), expected)
    # Padding is what the mask says, whatever its id.
    hidden = Tokens(tokens.ids, torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0]]))
    assert VOCABULARY.content(hidden).sum() == 1


def test_a_vocabulary_without_boundaries_or_mask_token() -> None:
    plain = Vocabulary(
        size=9, padding=0, mask=None, boundaries=(), characters=torch.ones(9, dtype=torch.long)
    )
    tokens = batch([CLS, 5], [SEP])
    assert torch.equal(plain.content(tokens), tokens.mask.bool())
    with pytest.raises(TertiumError, match="no mask token"):
        plain.mask_id  # noqa: B018
    with pytest.raises(TertiumError, match="no mask token"):
        VIEWS["span_mask"](plain)
