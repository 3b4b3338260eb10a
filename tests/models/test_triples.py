import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tertium
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.tokens import check_triples
from tertium.models.triples import TripleTokenizer, shared_budget


@pytest.fixture(params=["bert", "roberta"])
def joiner(request: pytest.FixtureRequest) -> TripleTokenizer:
    encoder = tertium.load(request.getfixturevalue(f"tiny_{request.param}"), engine="torch")
    assert isinstance(encoder, Encoder)
    return TripleTokenizer(encoder.text_tokenizer, max_length=16)


def joined(joiner: TripleTokenizer, *texts: str) -> tuple[list[str], int, bool]:
    ids = joiner.tokenize(texts)
    *sentences, condition = (ids[text] for text in texts)
    row = joiner.join(sentences, condition)
    return joiner.tokenizer.tokenizer.convert_ids_to_tokens(row.ids), row.sentences, row.cut


def test_one_sequence_and_its_segments(joiner: TripleTokenizer) -> None:
    first, separator = joiner.tokenizer.tokenizer.cls_token, joiner.tokenizer.tokenizer.sep_token
    tokens, sentences, cut = joined(joiner, "the cat", "a dog", "b c")
    expected = [first, "the", "cat", separator, "a", "dog", separator, "b", "c", separator]
    assert (tokens, sentences, cut) == (expected, 7, False)


def test_a_separator_in_a_sentence_is_text(joiner: TripleTokenizer) -> None:
    separator = joiner.tokenizer.tokenizer.sep_token_id
    ids = joiner.tokenize([f"a {joiner.tokenizer.tokenizer.sep_token} b", "c"])
    assert all(separator not in found for found in ids.values())
    row = joiner.join(list(ids.values()), ids["c"])
    assert row.ids.count(separator) == 3


def test_the_longer_sentence_is_cut_first_and_the_condition_stays(joiner: TripleTokenizer) -> None:
    tokens, sentences, cut = joined(joiner, "a " * 30, "b c", "d e f")
    assert len(tokens) == 16 and cut
    assert tokens[sentences:] == ["d", "e", "f", joiner.tokenizer.tokenizer.sep_token]
    assert tokens.count("a") == 7 and "c" in tokens
    tokens, _, _ = joined(joiner, "a " * 30, "b " * 30, "d e f")
    assert (tokens.count("a"), tokens.count("b"), len(tokens)) == (5, 4, 16)


def test_a_condition_longer_than_everything_leaves_a_token_of_each_sentence(
    joiner: TripleTokenizer,
) -> None:
    tokens, _, cut = joined(joiner, "a a", "b b", "d " * 40)
    assert len(tokens) == 16 and cut
    assert (tokens.count("a"), tokens.count("b"), tokens.count("d")) == (1, 1, 10)
    assert tokens[-1] == joiner.tokenizer.tokenizer.sep_token
    tokens, _, cut = joined(joiner, "a", "b", "d " * 7)
    assert not cut and tokens.count("d") == 7


def test_empty_parts(joiner: TripleTokenizer) -> None:
    first, separator = joiner.tokenizer.tokenizer.cls_token, joiner.tokenizer.tokenizer.sep_token
    assert joined(joiner, "", "a", "b")[0] == [first, separator, "a", separator, "b", separator]
    tokens, sentences, _ = joined(joiner, "a", "b", "")
    assert tokens == [first, "a", separator, "b", separator]
    assert sentences == len(tokens)


def test_a_batch_has_segments_and_padding(joiner: TripleTokenizer) -> None:
    ids = joiner.tokenize(["a", "b c"])
    rows = [joiner.join([ids["a"], ids["b c"]], ids["a"]), joiner.join([ids["a"]], None)]
    batch = joiner.batch(rows)
    assert batch["segments"].tolist() == [[0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, *[-1] * 5]]
    assert batch["attention_mask"].sum(axis=1).tolist() == [8, 3]
    assert (batch["input_ids"][1, 3:] == joiner.tokenizer.tokenizer.pad_token_id).all()
    assert joiner.batch(rows, width=16)["input_ids"].shape == (2, 16)
    assert np.array_equal(joiner.batch(rows, width=16)["input_ids"][:, :8], batch["input_ids"])


def test_a_length_without_room_is_refused(joiner: TripleTokenizer) -> None:
    small = TripleTokenizer(joiner.tokenizer, max_length=6)
    with pytest.raises(TertiumError, match="leaves no room"):
        small.join([[5], [6]], [7])


def test_a_tokenizer_without_separator_is_refused(joiner: TripleTokenizer) -> None:
    class Bare:
        first_id = pad_id = 0
        separator_id = None

    with pytest.raises(TertiumError, match="has no sep token"):
        TripleTokenizer(Bare(), max_length=8)  # type: ignore[arg-type]


@given(lengths=st.lists(st.integers(0, 50), min_size=1, max_size=2), budget=st.integers(2, 60))
def test_a_budget_is_filled_and_never_exceeded(lengths: list[int], budget: int) -> None:
    fitted = shared_budget(lengths, budget=budget)
    assert sum(fitted) == min(sum(lengths), budget)
    assert all(0 <= short <= long for short, long in zip(fitted, lengths, strict=True))
    if sum(lengths) > budget and len(lengths) == 2:
        shorter, longer = sorted(range(2), key=lambda at: lengths[at])
        assert fitted[longer] >= fitted[shorter] - 1
        assert fitted[shorter] == lengths[shorter] or abs(fitted[0] - fitted[1]) <= 1


@pytest.mark.parametrize("bad", [("a", "b"), "abc", ("a", "b", 3), ("a", "b", None)])
def test_what_is_no_triple_is_refused(bad: object) -> None:
    with pytest.raises(TertiumError, match=r"triples\[1\] is .*not two sentences and a condition"):
        check_triples([("a", "b", "c"), bad])  # type: ignore[list-item]


def test_a_triple_may_be_a_list() -> None:
    rows = [["a", "b", "c"]]
    assert check_triples(rows) == [("a", "b", "c")]  # type: ignore[arg-type]
