from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium.engines.static import distil_static
from tertium.models import Encoder, Ensemble
from tertium.models.tokens import TokenizationStats
from tertium.serve.readers import JointReader, TextReader
from tests.serve.fakes import FakeConditional, FakeModel

TEXTS = ["the cat sleeps .", "a dog barks", "", "x " * 200, "a dog barks", "a " * 62, "b " * 63]


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> Encoder:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    return encoder


def test_ids_give_what_texts_give(bert: Encoder) -> None:
    ids = bert.tokenize(TEXTS, truncation=TokenizationStats())
    expected = bert.encode(TEXTS, truncation=TokenizationStats())
    assert np.allclose(bert.encode_ids(ids), expected, atol=1e-6)
    assert np.allclose(bert.encode_ids(ids, token_budget=1), expected, atol=1e-5)
    assert bert.encode_ids([]).shape == (0, bert.dimension)


def test_an_encoder_reads_each_text_once(bert: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = TextReader(bert)
    items = reader.read(TEXTS)
    assert [item.tokens for item in items] == [6, 5, 2, 64, 5, 64, 64]
    assert [item.cut for item in items] == [False, False, False, True, False, False, True]
    expected = _encoded(bert)
    monkeypatch.setattr(bert, "_tokenize", None)
    assert np.allclose(reader.run(items), expected, atol=1e-6)


def test_texts_that_are_all_too_long_are_not_read_again_to_find_out(
    bert: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = TextReader(bert)
    monkeypatch.setattr(reader, "_is_cut", None)
    assert [item.cut for item in reader.read(["x " * 200, "b " * 100, "short"])] == [
        True,
        True,
        False,
    ]
    assert not any(item.cut for item in reader.read(["a " * 62, "short"]))


@pytest.mark.parametrize("content", ["x" * 2_000_000, " " * 2_000_000, "a b " * 500_000])
def test_the_longest_text_costs_no_more_than_the_model_reads(
    content: str, bert: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    tokenizer = type(bert.text_tokenizer)
    tokenize = tokenizer.ids

    def counted(self: Any, texts: list[str]) -> list[list[int]]:
        sizes.extend(map(len, texts))
        return tokenize(self, texts)

    monkeypatch.setattr(tokenizer, "ids", counted)
    reader = TextReader(bert)
    (item,) = reader.read([content])
    assert item.cut and reader.size(content) == 64 * 32
    assert sizes and sum(sizes) <= 3 * 64 * 32


@pytest.mark.parametrize("kind", ["ensemble", "static", "fake"])
def test_other_models_are_given_the_texts(kind: str, bert: Encoder) -> None:
    model = {
        "ensemble": lambda: Ensemble([bert, bert]),
        "static": lambda: distil_static(bert),
        "fake": lambda: FakeModel("hash"),
    }[kind]()
    reader = TextReader(model)
    items = reader.read(TEXTS)
    assert all(item.tokens > 0 and item.ids is None for item in items)
    assert np.allclose(reader.run(items), _encoded(model), atol=1e-6)


def test_triples_count_all_their_texts() -> None:
    reader = JointReader(FakeConditional())
    items = reader.read([("a b", "c", "d e f"), ("a", "b", "c")])
    assert [item.tokens for item in items] == [12, 9]
    assert reader.run(items).tolist() == [1.0, 2.0]


def test_scores_of_vectors_are_scores_of_texts(bert: Encoder) -> None:
    pairs = [("the cat sleeps .", "a dog barks"), ("x", "x")]
    sts = tertium.load("sts-fast")
    for model in (bert, Ensemble([bert, bert]), sts):
        rows = model.encode([text for pair in pairs for text in pair])
        assert np.allclose(
            model.score_vectors(rows[0::2], rows[1::2]), model.score(pairs), atol=1e-5
        )
    cat, stocks = sts.encode(["A cat sleeps.", "Stocks fell sharply."])
    assert sts.score_vectors(cat[None], stocks[None]).tolist() == [0.0]  # below the scale


def _encoded(model: Encoder | Ensemble | FakeModel) -> np.ndarray:
    if isinstance(model, FakeModel):
        return model.encode(TEXTS)
    return model.encode(TEXTS, truncation=TokenizationStats())
