from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tertium.errors import TertiumError
from tertium.types import Tokens
from tertium.views import VIEWS, Deletion, DropoutTwin, Repetition, SpanMask
from tests.views.toys import (
    CLS,
    CONTENTS,
    MASK,
    OPTIONS,
    SEEDS,
    SEP,
    VOCABULARY,
    batch,
    content,
    framed,
    generator,
    left,
    padded,
    subsequence,
)

RATES = st.floats(0, 1)


@pytest.mark.parametrize("kind", sorted(VIEWS.keys() - {"add"}))
@given(rows=CONTENTS, seed=SEEDS)
def test_the_same_generator_gives_the_same_view(
    kind: str, rows: list[list[int]], seed: int
) -> None:
    tokens, view = framed(*rows), VIEWS[kind](VOCABULARY)
    before = tokens.ids.clone(), tokens.mask.clone()
    one, two = (view(tokens, generator=generator(seed), **OPTIONS) for _ in range(2))
    assert torch.equal(one.ids, two.ids) and torch.equal(one.mask, two.mask)
    for row in left(one):
        assert row[0] == CLS and row[-1] == SEP and content(row) == row[1:-1]
    assert torch.equal(tokens.ids, before[0]) and torch.equal(tokens.mask, before[1])


def test_the_dropout_twin_is_the_sentence_itself() -> None:
    tokens = framed([5, 6], [7])
    assert DropoutTwin(VOCABULARY)(tokens, **OPTIONS) is tokens


# deletion


@given(rows=CONTENTS, seed=SEEDS, rate=RATES)
def test_deletion_keeps_order_boundaries_and_some_content(
    rows: list[list[int]], seed: int, rate: float
) -> None:
    view = Deletion(VOCABULARY, rate=rate)
    found = left(view(framed(*rows), generator=generator(seed), **OPTIONS))
    for row, before in zip(found, rows, strict=True):
        assert row[0] == CLS and row[-1] == SEP
        assert subsequence(row[1:-1], before)
        assert bool(row[1:-1]) == bool(before)


@given(seed=SEEDS, lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_deletion_of_everything_leaves_one_and_of_nothing_all(
    seed: int, lengths: list[int]
) -> None:
    tokens = padded(framed(*([5 + at for at in range(n)] for n in lengths)), 2)
    gone = Deletion(VOCABULARY, rate=1.0)(tokens, generator=generator(seed), **OPTIONS)
    assert [len(row) - 2 for row in left(gone)] == [min(n, 1) for n in lengths]
    kept = Deletion(VOCABULARY, rate=0.0)(tokens, generator=generator(seed), **OPTIONS)
    assert torch.equal(kept.ids, tokens.ids) and torch.equal(kept.mask, tokens.mask)


def test_deletion_takes_its_share_from_every_place() -> None:
    tokens = framed(*[list(range(5, 25))] * 2000)
    found = left(Deletion(VOCABULARY, rate=0.2)(tokens, generator=generator(0), **OPTIONS))
    kept = Counter(token for row in found for token in row[1:-1])
    assert all(abs(kept[token] / 2000 - 0.8) < 0.05 for token in range(5, 25))


# repetition


@given(rows=CONTENTS, seed=SEEDS, rate=RATES)
def test_repetition_doubles_some_content(rows: list[list[int]], seed: int, rate: float) -> None:
    view = Repetition(VOCABULARY, rate=rate)
    found = left(view(framed(*rows), generator=generator(seed), **OPTIONS))
    for row, before in zip(found, rows, strict=True):
        assert row[0] == CLS and row[-1] == SEP
        more = len(row) - 2 - len(before)
        assert 0 <= more <= min(max(2, int(rate * len(before) + 1e-6)), len(before))
        doubled = iter(row[1:-1])
        at = 0
        for token in doubled:  # each token of the sentence once or twice in place
            if at and token == before[at - 1] and (at == len(before) or token != before[at]):
                continue
            assert token == before[at]
            at += 1
        assert at == len(before)


def test_repetition_draws_every_number_of_repeats() -> None:
    tokens = framed(*[list(range(5, 15))] * 2000)
    view = Repetition(VOCABULARY, rate=0.32)  # of ten tokens, three at most
    found = left(view(tokens, generator=generator(0), **OPTIONS))
    more = Counter(len(row) - 12 for row in found)
    assert sorted(more) == [0, 1, 2, 3]
    assert all(abs(count / 2000 - 0.25) < 0.05 for count in more.values())
    for row in found:
        assert Counter(row).most_common(1)[0][1] <= 2  # never the same token twice over
    twice = Counter(t for row in found for t, times in Counter(row).items() if times == 2)
    assert set(twice) == set(range(5, 15))


@given(rows=CONTENTS, seed=SEEDS, longest=st.integers(1, 12))
def test_repetition_stops_where_the_model_does(
    rows: list[list[int]], seed: int, longest: int
) -> None:
    view = Repetition(replace(VOCABULARY, longest=longest), rate=1.0)
    found = left(view(framed(*rows), generator=generator(seed), **OPTIONS))
    for row, before in zip(found, rows, strict=True):
        assert len(row) <= max(longest, len(before) + 2)
        assert row[0] == CLS and row[-1] == SEP


# a masked span


def spans(row: list[int], characters: int) -> list[list[int]]:
    """All that can become of a sentence: the span starts at any character where it fits."""
    owners = [at for at, token in enumerate(row) for _ in range(int(VOCABULARY.characters[token]))]
    starts = range(max(len(owners) - characters + 1, 1))
    found = []
    for start in starts:
        hidden = sorted(set(owners[start : start + characters]))
        rest = [token for at, token in enumerate(row) if at not in hidden]
        if hidden:
            rest.insert(hidden[0], MASK)
        found.append(rest)
    return found


@given(rows=CONTENTS, seed=SEEDS, characters=st.integers(1, 12))
def test_a_span_is_hidden_behind_one_mask_token(
    rows: list[list[int]], seed: int, characters: int
) -> None:
    view = SpanMask(VOCABULARY, characters=characters)
    found = left(view(framed(*rows), generator=generator(seed), **OPTIONS))
    for row, before in zip(found, rows, strict=True):
        assert row[0] == CLS and row[-1] == SEP
        assert row[1:-1] in spans(before, characters)
        assert row.count(MASK) == (1 if before else 0)


def test_every_place_of_the_span_is_drawn() -> None:
    row = [5, 8, 6, 7]  # 2, 1, 3 and 4 characters
    possible = spans(row, 3)
    assert len(possible) == 8
    view = SpanMask(VOCABULARY, characters=3)
    found = left(view(framed(*[row] * 2000), generator=generator(0), **OPTIONS))
    drawn = Counter(tuple(f[1:-1]) for f in found)
    wanted = Counter(map(tuple, possible))
    assert drawn.keys() == wanted.keys()
    for span, times in wanted.items():
        assert abs(drawn[span] / 2000 - times / 8) < 0.05


# together


def test_views_stack() -> None:
    tokens = framed([5, 6, 7, 9, 10, 11], [12])
    for view in (SpanMask(VOCABULARY, characters=4), Repetition(VOCABULARY), Deletion(VOCABULARY)):
        tokens = view(tokens, generator=generator(1), **OPTIONS)
    for row in left(tokens):
        assert row[0] == CLS and row[-1] == SEP and len(row) > 2


@pytest.mark.parametrize("kind", sorted(VIEWS.keys() - {"add"}))
def test_rows_without_content_stay(kind: str) -> None:
    tokens = batch([CLS, SEP], [SEP], [CLS])
    found: Tokens = VIEWS[kind](VOCABULARY)(tokens, generator=generator(0), **OPTIONS)
    assert left(found) == [[CLS, SEP], [SEP], [CLS]]


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
@pytest.mark.parametrize("view", [Deletion, Repetition])
def test_rates_are_shares(view: type[Deletion | Repetition], rate: float) -> None:
    with pytest.raises(TertiumError, match="rate must be between 0 and 1"):
        view(VOCABULARY, rate=rate)


def test_a_span_has_characters() -> None:
    with pytest.raises(TertiumError, match="at least 1, got 0"):
        SpanMask(VOCABULARY, characters=0)
