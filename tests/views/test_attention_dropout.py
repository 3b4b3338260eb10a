from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tertium
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.training.vocabulary import read_vocabulary
from tertium.types import Tokens
from tertium.views import AttentionDropout
from tertium.views.attention_dropout import Aggregation, Rate, drop_counts, least_attended
from tests.views.toys import (
    CLS,
    CONTENTS,
    ROWS,
    SEEDS,
    SEP,
    VOCABULARY,
    batch,
    content,
    framed,
    left,
    padded,
    subsequence,
)

RATES = st.sampled_from([*Rate])
AGGREGATIONS = st.sampled_from([*Aggregation])
COUNTS = st.integers(0, 12)


def attend(tokens: Tokens) -> Tensor:
    """Attention by token id and place alone, so that a row does not depend on its batch."""
    places = torch.arange(tokens.ids.shape[1])
    keys = torch.sin(tokens.ids * 7.1 + places * 1.3)
    logits = torch.stack(
        [
            torch.stack(
                [
                    keys[:, None, :] * torch.cos(places[:, None] * factor + head)
                    for head in (0.0, 1.0)
                ],
                dim=1,
            )
            for factor in (0.5, 1.7)
        ]
    ).double()
    hidden = tokens.mask[None, :, None, None, :] == 0
    return logits.masked_fill(hidden, -torch.inf).softmax(-1)


def favouring(*scores: float) -> Tensor:
    """Attention of one sentence whose every query gives these weights."""
    return torch.tensor(scores, dtype=torch.float64).expand(1, 1, 1, len(scores), len(scores))


# what may go


@given(rows=CONTENTS, k=COUNTS, t=st.integers(1, 10), rate=RATES, aggregation=AGGREGATIONS)
def test_special_tokens_stay_and_so_does_some_content(
    rows: list[list[int]], k: int, t: int, rate: Rate, aggregation: Aggregation
) -> None:
    tokens = framed(*rows)
    view = AttentionDropout(VOCABULARY, aggregation=aggregation, rate=rate, k=k, t=t)
    found = left(view(tokens, attend=attend))
    for row, before in zip(found, rows, strict=True):
        assert row[0] == CLS and row[-1] == SEP
        length = len(before) + 2
        wanted = length // t if rate is Rate.DYNAMIC else k * (length >= t)
        gone = min(wanted, max(len(before) - 1, 0))
        assert len(row) == length - gone
        assert bool(content(row)) == bool(before)
        assert subsequence(row, [CLS, *before, SEP])


@given(rows=ROWS, k=COUNTS, aggregation=AGGREGATIONS)
def test_unprotected_all_may_go(rows: list[list[int]], k: int, aggregation: Aggregation) -> None:
    view = AttentionDropout(
        VOCABULARY, aggregation=aggregation, k=k, t=0, protect_special_tokens=False
    )
    for row, before in zip(left(view(batch(*rows), attend=attend)), rows, strict=True):
        assert len(row) == max(len(before) - k, 0)
        assert subsequence(row, before)


@given(rows=ROWS, k=COUNTS)
def test_protected_content_stays_without_any_boundary_too(rows: list[list[int]], k: int) -> None:
    view = AttentionDropout(VOCABULARY, k=k, t=0)
    for row, before in zip(left(view(batch(*rows), attend=attend)), rows, strict=True):
        assert bool(content(row)) == bool(content(before))
        boundaries = [token for token in before if token in VOCABULARY.boundaries]
        assert [token for token in row if token in VOCABULARY.boundaries] == boundaries


@given(
    rows=CONTENTS,
    extra=st.integers(1, 5),
    rate=RATES,
    aggregation=AGGREGATIONS,
    protect=st.booleans(),
    last=st.booleans(),
)
def test_padding_of_the_batch_does_not_matter(
    rows: list[list[int]],
    extra: int,
    rate: Rate,
    aggregation: Aggregation,
    protect: bool,
    last: bool,
) -> None:
    view = AttentionDropout(
        VOCABULARY,
        aggregation=aggregation,
        rate=rate,
        k=2,
        t=3,
        protect_special_tokens=protect,
        last_layer_only=last,
    )
    tokens = framed(*rows)
    plain = left(view(tokens, attend=attend))
    assert left(view(padded(tokens, extra), attend=attend)) == plain
    for row, alone in zip(plain, rows, strict=True):
        assert left(view(framed(alone), attend=attend)) == [row]


@given(
    n=st.integers(1, 4),
    t=st.integers(1, 8),
    seed=SEEDS,
    counts=st.lists(COUNTS, min_size=4),
    spared=st.integers(0, 2),
)
def test_the_lowest_scores_go(n: int, t: int, seed: int, counts: list[int], spared: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(n, t, generator=generator)
    droppable = torch.rand(n, t, generator=generator) < 0.7
    gone = least_attended(scores, torch.tensor(counts[:n]), droppable, spared=spared)
    assert not (gone & ~droppable).any()
    for row in range(n):
        dropped = scores[row][gone[row]]
        kept = scores[row][droppable[row] & ~gone[row]]
        assert len(dropped) == min(counts[row], max(int(droppable[row].sum()) - spared, 0))
        if len(dropped) and len(kept):
            assert dropped.max() < kept.min()


def test_the_least_attended_token_goes() -> None:
    tokens = framed([5, 6, 7])
    attention = favouring(0.05, 0.3, 0.15, 0.4, 0.1)
    protected = AttentionDropout(VOCABULARY, k=1, t=0)
    assert left(protected(tokens, attend=lambda _: attention)) == [[CLS, 5, 7, SEP]]
    plain = AttentionDropout(VOCABULARY, k=2, t=0, protect_special_tokens=False)
    assert left(plain(tokens, attend=lambda _: attention)) == [[5, 6, 7]]


# how many go


def test_rates() -> None:
    mask = (torch.arange(12) < torch.tensor([[3], [10], [12]])).long()
    assert drop_counts(mask, rate=Rate.STATIC, k=2, t=10).tolist() == [0, 2, 2]
    assert drop_counts(mask, rate=Rate.STATIC, k=2, t=0).tolist() == [2, 2, 2]
    assert drop_counts(mask, rate=Rate.DYNAMIC, k=2, t=4).tolist() == [0, 2, 3]


def test_a_batch_that_loses_nothing_is_not_scored() -> None:
    def never(_: Tokens) -> Tensor:
        raise AssertionError("no pass was needed")

    tokens = framed([5, 6], [7])
    for settings in ({"k": 3, "t": 5}, {"k": 0, "t": 0}, {"rate": Rate.DYNAMIC, "t": 5}):
        assert AttentionDropout(VOCABULARY, **settings)(tokens, attend=never) is tokens  # type: ignore[arg-type]


def test_one_token_and_no_token() -> None:
    tokens = framed([5], [])
    protected = AttentionDropout(VOCABULARY, k=9, t=0)
    assert left(protected(tokens, attend=attend)) == [[CLS, 5, SEP], [CLS, SEP]]
    plain = AttentionDropout(VOCABULARY, k=3, t=0, protect_special_tokens=False)
    found = plain(tokens, attend=attend)
    assert left(found) == [[], []] and found.ids.shape == tokens.ids.shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": -1}, "k must not be negative, got -1"),
        ({"t": -1}, "t must be at least 0, got -1"),
        ({"t": -2, "rate": Rate.DYNAMIC}, "t must be at least 0|t must be positive"),
        ({"t": 0, "rate": Rate.DYNAMIC}, "t must be positive, got 0"),
        ({"t": 0, "rate": "dynamic"}, "t must be positive, got 0"),
    ],
)
def test_counts_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(TertiumError, match=message):
        AttentionDropout(VOCABULARY, **settings)  # type: ignore[arg-type]


# the authors' ways


def test_the_old_mask_can_be_kept() -> None:
    tokens = framed([5, 6, 7, 8], [9])
    stale = AttentionDropout(VOCABULARY, k=2, t=0, shorten_mask=False)(tokens, attend=attend)
    fresh = AttentionDropout(VOCABULARY, k=2, t=0)(tokens, attend=attend)
    assert torch.equal(stale.ids, fresh.ids)
    assert torch.equal(stale.mask, tokens.mask)
    assert fresh.mask.sum() < tokens.mask.sum()


def test_padding_queries_can_be_counted() -> None:
    tokens = framed([5, 6, 7], [8])
    ours = AttentionDropout(VOCABULARY)
    theirs = AttentionDropout(VOCABULARY, count_padding_queries=True)
    real = tokens.mask.bool()
    for extra in (1, 3):
        wide = padded(tokens, extra)
        same = ours.scores(wide, attend)[:, : real.shape[1]][real]
        other = theirs.scores(wide, attend)[:, : real.shape[1]][real]
        assert torch.allclose(same, ours.scores(tokens, attend)[real])
        assert (other > theirs.scores(tokens, attend)[real]).all()


# a real encoder


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    source: Path = request.getfixturevalue(request.param)
    return tertium.load(source)


TEXTS = ["the cat sleeps , the dog barks .", "a b c", "the"]


def tokens_of(encoder: Encoder, texts: list[str] = TEXTS) -> Tokens:
    features = encoder.features(texts)
    return Tokens(features["input_ids"], features["attention_mask"])


def test_scoring_is_without_gradients_and_dropout(encoder: Encoder) -> None:
    modes: list[tuple[bool, bool]] = []
    encoder.backbone.register_forward_pre_hook(
        lambda model, _: modes.append((model.training, torch.is_grad_enabled()))
    )
    tokens = tokens_of(encoder)
    encoder.model.train()
    first, second = encoder.attention(tokens), encoder.attention(tokens)
    assert modes and set(modes) == {(False, False)}
    assert encoder.model.training and encoder.backbone.training and torch.is_grad_enabled()
    assert torch.equal(first, second) and not first.requires_grad
    assert first.shape == (3, 3, 4, *tokens.ids.shape[1:], *tokens.ids.shape[1:])
    encoder.model.eval()
    encoder.attention(tokens)
    assert not encoder.model.training


@pytest.mark.parametrize("aggregation", [*Aggregation])
def test_a_sentence_loses_the_same_tokens_in_any_batch(
    encoder: Encoder, aggregation: Aggregation
) -> None:
    view = AttentionDropout(
        read_vocabulary(encoder.tokenizer), aggregation=aggregation, rate=Rate.DYNAMIC, t=2
    )
    together = view(tokens_of(encoder), attend=encoder.attention)
    for row, text in enumerate(TEXTS):
        alone = view(tokens_of(encoder, [text]), attend=encoder.attention)
        length = int(alone.mask.sum())
        assert together.mask[row].sum() == length
        assert torch.equal(together.ids[row, :length], alone.ids[0, :length])
    assert together.mask.sum(1).tolist() == [5, 3, 3]


def test_an_emptied_sentence_still_has_a_finite_vector(encoder: Encoder) -> None:
    view = AttentionDropout(
        read_vocabulary(encoder.tokenizer), k=5, t=0, protect_special_tokens=False
    )
    tokens = view(tokens_of(encoder), attend=encoder.attention)
    assert tokens.mask.sum(1).tolist() == [5, 0, 0]
    out = encoder.forward({"input_ids": tokens.ids, "attention_mask": tokens.mask})
    assert out.embedding.isfinite().all()
    out.embedding.sum().backward()
    weights = encoder.backbone.get_input_embeddings().weight
    assert weights.grad is not None and weights.grad.isfinite().all()
