from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tertium
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.explain import focus
from tertium.explain.pictures import focus_figure
from tertium.explain.words import split_words
from tertium.functional.reallocation import reweighting
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import Encoder
from tertium.models.conditional import ConditionalScorer, model_shape

TRIPLE = ("the cat sleeps .", "a dog !", "the animal")


@pytest.fixture(params=["bert", "roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    loaded = tertium.load(request.getfixturevalue(f"tiny_{request.param}"), engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


def with_head(encoder: Encoder, kind: str, **settings: float) -> ConditionalScorer:
    head = CONDITIONAL_HEADS[kind](model_shape(encoder), **settings)
    return ConditionalScorer(encoder, head, OrderedLabels(1.0, 5.0))


def test_whole_words_of_both_sentences(encoder: Encoder) -> None:
    found = focus(encoder, TRIPLE)
    assert found.words == ("the", "cat", "sleeps", ".", "a", "dog", "!")
    assert found.split == 4 and found.condition == "the animal"
    assert found.attention.shape == found.weights.shape == (7, 7)
    assert found.marked == (int(found.relevance.argmax()),)
    # One word a token here would be a mean over special tokens, too: rows have less than all.
    assert (found.weights > 0).all() and (found.attention.sum(axis=1) < 1).all()


def test_words_are_those_that_an_explanation_is_about(encoder: Encoder) -> None:
    texts = ("a well-known cat's nap , 3.5 h .", "the dog don't bark !")
    found = focus(encoder, (*texts, "the animal"))
    assert found.words == tuple(word.text for text in texts for word in split_words(text))
    assert found.words[1:3] == ("well-known", "cat's") and np.isfinite(found.attention).all()


def test_words_of_one_piece_have_the_weights_of_their_tokens(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    texts = ("a b", "c", "d e")  # every letter is one token of the toy vocabulary
    ids = [encoder.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert [len(tokens) for tokens in ids] == [2, 1, 2]
    cls, sep = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    row = torch.tensor([[cls, *ids[0], sep, *ids[1], sep, *ids[2], sep]])
    inputs = {"input_ids": row, "attention_mask": torch.ones_like(row)}
    with torch.inference_mode():
        maps = encoder.forward(inputs, attention_layers=(-1,)).attention
    assert maps is not None
    segments = torch.tensor([[0] * 6 + [1] * 3])
    kept = torch.tensor([1, 2, 4])
    found = focus(encoder, texts)
    assert_close(torch.tensor(found.attention), maps[-1][0].mean(dim=0)[kept][:, kept])
    weights = reweighting(maps[-1], segments)[0].mean(dim=0)[kept][:, kept]
    assert_close(torch.tensor(found.weights), weights)
    asked, plain = torch.tensor([6, 7]), maps[-1][0].mean(dim=0)
    expected = plain[kept][:, asked].sum(dim=1) + plain[asked][:, kept].mean(dim=0)
    assert_close(torch.tensor(found.relevance), expected)


def test_a_temperature_sharpens_what_is_reallocated(encoder: Encoder) -> None:
    flat = focus(with_head(encoder, "seaver"), TRIPLE)
    sharp = focus(with_head(encoder, "seaver", temperature=0.01), TRIPLE)
    np.testing.assert_array_equal(flat.attention, sharp.attention)
    assert sharp.weights.std() > 2 * flat.weights.std()


def test_a_bi_encoder_relates_each_sentence_to_the_condition_alone(encoder: Encoder) -> None:
    found = focus(with_head(encoder, "bi"), TRIPLE)
    assert found.split == 4 and len(found.words) == 7
    inside = (found.attention[:4, :4], found.attention[4:, 4:])
    assert all(np.isfinite(part).all() for part in inside)
    between = (found.attention[:4, 4:], found.weights[4:, :4])
    assert all(np.isnan(part).all() for part in between)
    focus_figure(found)


def test_another_model_as_baseline(tiny_bert: Path, encoder: Encoder) -> None:
    other = tertium.load(tiny_bert, engine="torch")
    assert isinstance(other, Encoder)
    own, compared = focus(other, TRIPLE), focus(encoder, TRIPLE, baseline=other)
    np.testing.assert_array_equal(compared.attention, own.attention)
    np.testing.assert_array_equal(compared.weights, focus(encoder, TRIPLE).weights)


def test_long_sentences_are_cut_as_the_model_cuts_them(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, max_length=12, engine="torch")
    assert isinstance(encoder, Encoder)
    found = focus(encoder, ("a b c d e f g h i j", "x y", "the dog"))
    assert found.words == ("a", "b", "c", "d", "x", "y") and found.split == 4


def test_the_picture_names_words_and_condition(encoder: Encoder) -> None:
    figure = focus_figure(focus(encoder, TRIPLE))
    for axes in figure.axes[::2]:  # the others are the scales of colours
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert labels == ["the", "cat", "sleeps", ".", "a", "dog", "!"]
        bold = [at for at, x in enumerate(axes.get_xticklabels()) if x.get_fontweight() == "bold"]
        assert len(bold) == 1
    assert "the animal" in str(figure.get_suptitle())


@pytest.mark.parametrize("triple", [("", "a", "b"), ("a", " ", "b"), ("a", "b", "\t")])
def test_nothing_may_be_empty(encoder: Encoder, triple: tuple[str, str, str]) -> None:
    with pytest.raises(TertiumError, match="none may be empty"):
        focus(encoder, triple)


def test_a_tri_encoder_has_nothing_to_show(encoder: Encoder) -> None:
    with pytest.raises(TertiumError, match="sentences and condition separately"):
        focus(with_head(encoder, "tri"), TRIPLE)
