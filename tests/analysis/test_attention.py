from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tertium
from tertium.analysis import (
    PairInformation,
    attention_histograms,
    attention_map_figure,
    attention_sinks,
    information_scatter,
    pair_information,
    sentence_attention,
    sink_figure,
)
from tertium.analysis.attention import Role, token_roles
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.surgery import join_towers
from tertium.types import Tokens
from tests.fakes import tiny_model
from tests.models.test_towers import loaded, other_weights
from tests.training.toys import toy_texts

TEXTS = [text for (text,) in toy_texts(16).texts]
SENTENCES = ["the cat sleeps .", "a b c", "the dog barks , the cat sleeps ."]


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    loaded = tertium.load(tiny_bert, engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


def parts(found: PairInformation) -> dict[str, Any]:
    return dict(vars(found))


def test_two_views_of_a_text_share_more_than_two_texts(encoder: Encoder) -> None:
    found = pair_information(encoder, TEXTS)
    for values in parts(found).values():
        assert values.shape == (16,) and values.isfinite().all() and not values.requires_grad
    assert found.positive_information.mean() > 2 * found.negative_information.mean()
    assert found.positive_cosines.mean() > found.negative_cosines.mean()
    assert (found.negative_information >= 0).all() and (found.positive_information > 0).all()
    assert found.positive_cosines.max() < 1 - 1e-4  # dropout makes the views


def test_without_dropout_a_text_shares_all_with_itself(encoder: Encoder) -> None:
    for part in encoder.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    found = pair_information(encoder, TEXTS, samples=40)
    assert_close(found.positive_information, torch.full((16,), -0.5 * np.log(1e-6)).float())
    assert_close(found.positive_cosines, torch.ones(16))
    assert found.negative_information.max() < 3


def test_a_negative_is_the_text_before(encoder: Encoder) -> None:
    for part in encoder.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    vectors = encoder.encode(TEXTS, normalize=True)
    expected = (vectors * np.roll(vectors, 1, axis=0)).sum(axis=1)
    found = pair_information(encoder, TEXTS)
    np.testing.assert_allclose(found.negative_cosines, expected, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_a_seed_decides_and_everything_is_left_as_it_was(encoder: Encoder, training: bool) -> None:
    encoder.model.train(training)
    before = torch.random.get_rng_state()
    one, same, other = (parts(pair_information(encoder, TEXTS, seed=seed)) for seed in (1, 1, 2))
    attention_histograms(encoder, TEXTS)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(module.training == training for module in encoder.model.modules())
    assert all(parameter.grad is None for parameter in encoder.model.parameters())
    for name, values in one.items():
        assert torch.equal(values, same[name])
        assert not torch.equal(values, other[name])


def test_a_failure_restores_the_mode_too(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        assert encoder.model.training
        raise RuntimeError("broken")

    monkeypatch.setattr(encoder, "forward", broken)
    with pytest.raises(RuntimeError, match="broken"):
        pair_information(encoder, TEXTS)
    assert not encoder.model.training


def test_one_text_has_no_negatives(encoder: Encoder) -> None:
    with pytest.raises(TertiumError, match="at least two texts"):
        pair_information(encoder, TEXTS[:1])


def test_texts_that_are_too_short_share_nothing(encoder: Encoder, tmp_path: Path) -> None:
    single = tertium.load(tiny_model(tmp_path / "one-head", heads=1), engine="torch")
    assert isinstance(single, Encoder)
    found = pair_information(single, ["", "", "a b c d"])  # CLS and SEP are four positions
    assert not found.positive_information[:2].any() and found.positive_information[2] > 0


# figures


def test_a_scatter_of_both_kinds_of_pairs(encoder: Encoder) -> None:
    found = pair_information(encoder, TEXTS)
    (axes,) = information_scatter(found).axes
    same, different, *centroids = axes.collections
    for dots, kind in ((same, "positive"), (different, "negative")):
        values = parts(found)
        expected = np.stack([values[f"{kind}_cosines"], values[f"{kind}_information"]], axis=1)
        np.testing.assert_allclose(dots.get_offsets(), expected, rtol=1e-6)
    assert [tuple(dot.get_offsets()[0]) for dot in centroids] == [
        *map(pytest.approx, found.centroids)
    ]
    assert found.centroids[0][0] == pytest.approx(float(found.positive_cosines.mean()))
    assert "cosine" in axes.get_xlabel() and "mutual information" in axes.get_ylabel()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["same text", "two texts"]


@pytest.mark.parametrize(
    ("shape", "panels"),
    [({}, 4), ({"heads": 3, "width": 30}, 4), ({"layers": 12, "heads": 8}, 12)],
    ids=["all", "odd heads", "twelve of sixteen"],
)
def test_histograms_have_a_panel_per_slice(
    shape: dict[str, int], panels: int, tmp_path: Path
) -> None:
    encoder = tertium.load(tiny_model(tmp_path / "model", **shape), engine="torch")
    assert isinstance(encoder, Encoder)
    figure = attention_histograms(encoder, TEXTS)
    assert len(figure.axes) == panels
    last = 15 if panels == 12 else 3
    titles = [axes.get_title() for axes in figure.axes]
    assert (titles[0], titles[-1]) == ("slice 0", f"slice {last}") and len(set(titles)) == panels
    assert figure.get_supxlabel() and figure.get_supylabel()
    for axes in figure.axes:
        (cells,) = axes.collections
        assert cells.get_array().sum() > 100  # positions of all texts
        assert axes.get_xlim()[1] < 1  # logarithms of weights


def test_a_deep_model_has_rows_of_panels(tmp_path: Path) -> None:
    encoder = loaded(tiny_model(tmp_path / "deep", layers=7, heads=2, width=8))
    figure: Any = attention_map_figure(sentence_attention(encoder, "a b c d e f g ."))
    panels = figure.axes[:7]
    named = [any(label.get_text() for label in axes.get_xticklabels()) for axes in panels]
    assert named == [False, False, False, False, True, True, True]  # the lowest of each column
    figure.canvas.draw()


def test_spaces_of_a_tokenizer_are_not_shown(tiny_roberta: Path) -> None:
    found = sentence_attention(loaded(tiny_roberta), "the cat .")
    assert found.tokens == ("<s>", "the", "cat", ".", "</s>")


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_roles_of_tokens(model: str, request: pytest.FixtureRequest) -> None:
    encoder = loaded(request.getfixturevalue(model))
    ids = encoder.features([SENTENCES[2]])["input_ids"][0]
    roles = token_roles(encoder, ids)
    assert roles[0] is Role.FIRST and roles[-1] is Role.SEPARATOR
    assert roles[-2] is Role.PUNCTUATION and roles[4] is Role.CONTENT  # a comma inside is no end
    assert roles.count(Role.CONTENT) == 7
    assert Role.PUNCTUATION not in token_roles(encoder, encoder.features(["a b"])["input_ids"][0])


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_shares_are_those_of_a_plain_loop(model: str, request: pytest.FixtureRequest) -> None:
    encoder = loaded(request.getfixturevalue(model))
    found = attention_sinks(encoder, SENTENCES)
    layers = len(found.received)
    expected = np.zeros((len(SENTENCES), layers, len(Role)))
    even = np.zeros((len(SENTENCES), len(Role)))
    for number, text in enumerate(SENTENCES):  # one by one, so that nothing is padded
        features = encoder.features([text])
        maps = encoder.attention(Tokens(features["input_ids"], features["attention_mask"]))[:, 0]
        roles = token_roles(encoder, features["input_ids"][0])
        for at, role in enumerate(roles):
            place = list(Role).index(role)
            even[number, place] += 1 / len(roles)
            for layer in range(layers):
                expected[number, layer, place] += float(maps[layer, :, :, at].mean())
    np.testing.assert_allclose(found.received, expected.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.tokens, even.mean(axis=0), atol=1e-6)
    torch.testing.assert_close(found.received.sum(dim=1), torch.ones(layers))


def test_a_line_per_role_and_its_even_share(tiny_bert: Path) -> None:
    found = attention_sinks(loaded(tiny_bert), SENTENCES)
    (axes,) = sink_figure(found).axes
    drawn: Any = axes.lines
    assert len(drawn) == 2 * len(Role)
    np.testing.assert_allclose(drawn[2].get_ydata(), 100 * found.received[:, 1])
    assert drawn[3].get_linestyle() == ":" and drawn[3].get_ydata()[0] == pytest.approx(
        100 * float(found.tokens[1])
    )


def test_maps_of_a_sentence(tiny_bert: Path) -> None:
    found = sentence_attention(loaded(tiny_bert), "the cat sleeps .")
    assert found.tokens == ("[CLS]", "the", "cat", "sleeps", ".", "[SEP]")
    assert found.maps.shape == (3, 6, 6)
    torch.testing.assert_close(found.maps.sum(dim=2), torch.ones(3, 6))
    figure: Any = attention_map_figure(found)
    panels = figure.axes[:3]
    assert [axes.get_title() for axes in panels] == ["layer 1", "layer 2", "layer 3"]
    np.testing.assert_allclose(panels[1].images[0].get_array(), found.maps[1])
    left = panels[0].get_yticklabels()
    assert [label.get_text() for label in left] == list(found.tokens)
    assert {label.get_color() for label in left[-2:]} != {left[1].get_color()}  # marked
    assert not any(label.get_text() for label in panels[1].get_yticklabels())
    figure.canvas.draw()


def test_what_cannot_be_looked_at_says_so(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    with pytest.raises(TertiumError, match="at least one"):
        attention_sinks(encoder, [])
    with pytest.raises(TertiumError, match="text is empty"):
        sentence_attention(encoder, " ")
    with pytest.raises(TertiumError, match="two towers"):
        attention_sinks(join_towers(encoder, other_weights(encoder)), SENTENCES)
