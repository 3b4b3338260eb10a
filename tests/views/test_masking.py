import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tertium.errors import TertiumError
from tertium.views import Vocabulary
from tertium.views.noise import NOT_MASKED, mask_tokens
from tests.views.toys import CONTENTS, MASK, SEEDS, SIZE, VOCABULARY, framed, generator, padded


@given(rows=CONTENTS, seed=SEEDS, probability=st.floats(0.01, 0.99))
def test_only_content_is_hidden_and_labels_are_what_it_was(
    rows: list[list[int]], seed: int, probability: float
) -> None:
    tokens = padded(framed(*rows), 2)
    changed, labels = mask_tokens(
        tokens, VOCABULARY, probability=probability, generator=generator(seed)
    )
    assert torch.equal(changed.mask, tokens.mask)
    chosen = labels != NOT_MASKED
    assert not (chosen & ~VOCABULARY.content(tokens)).any()
    assert torch.equal(labels[chosen], tokens.ids[chosen])
    assert torch.equal(changed.ids[~chosen], tokens.ids[~chosen])
    again, _ = mask_tokens(tokens, VOCABULARY, probability=probability, generator=generator(seed))
    assert torch.equal(again.ids, changed.ids)


def test_shares_are_those_of_bert() -> None:
    tokens = framed(*[[20] * 50] * 2000)
    changed, labels = mask_tokens(tokens, VOCABULARY, generator=generator(0))
    chosen = labels != NOT_MASKED
    count = int(chosen.sum())
    assert count / 100_000 == pytest.approx(0.15, abs=0.005)
    found = changed.ids[chosen]
    assert (found == MASK).sum() / count == pytest.approx(0.8 + 0.1 / SIZE, abs=0.015)
    assert (found == 20).sum() / count == pytest.approx(0.1 + 0.1 / SIZE, abs=0.015)
    others = found[(found != MASK) & (found != 20)]
    assert others.unique().tolist() == [at for at in range(SIZE) if at not in (MASK, 20)]
    # Chosen at random means in every place alike.
    by_place = chosen[:, 1:-1].float().mean(0)
    assert (by_place - 0.15).abs().max() < 0.05


def test_without_a_mask_token_there_is_no_such_pass() -> None:
    plain = Vocabulary(
        size=9, padding=0, mask=None, boundaries=(), characters=torch.ones(9, dtype=torch.long)
    )
    with pytest.raises(TertiumError, match="no mask token"):
        mask_tokens(framed([5]), plain)
