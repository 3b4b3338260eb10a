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
    information_scatter,
    pair_information,
)
from tertium.errors import TertiumError
from tertium.models import Encoder
from tests.fakes import tiny_model
from tests.training.toys import toy_texts

TEXTS = [text for (text,) in toy_texts(16).texts]


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    loaded = tertium.load(tiny_bert)
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
    single = tertium.load(tiny_model(tmp_path / "one-head", heads=1))
    assert isinstance(single, Encoder)
    found = pair_information(single, ["", "", "a b c d"])  # CLS and SEP are four positions
    assert not found.positive_information[:2].any() and found.positive_information[2] > 0


# figures


def test_a_scatter_of_both_kinds_of_pairs(encoder: Encoder) -> None:
    found = pair_information(encoder, TEXTS)
    (axes,) = information_scatter(found).axes
    same, different = axes.collections
    for dots, kind in ((same, "positive"), (different, "negative")):
        values = parts(found)
        expected = np.stack([values[f"{kind}_cosines"], values[f"{kind}_information"]], axis=1)
        np.testing.assert_allclose(dots.get_offsets(), expected, rtol=1e-6)
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
    encoder = tertium.load(tiny_model(tmp_path / "model", **shape))
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
