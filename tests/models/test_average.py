from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tertium import models
from tertium.data.labels import OrderedLabels
from tertium.engines.loading import load_embedder
from tertium.errors import TertiumError
from tertium.models import ConditionalAverage
from tertium.models.adapters import extract_adapter
from tertium.models.loading import average
from tertium.models.names import takes_conditions
from tertium.models.tokens import TruncationWarning
from tests.models.test_conditional import raw, scorer_of


@pytest.fixture
def folders(tiny_bert: Path, tiny_roberta: Path, tmp_path: Path) -> list[Path]:
    for name, model, config in (
        ("cross", tiny_bert, {"kind": "cross"}),
        ("bi", tiny_roberta, {"kind": "bi"}),
        ("seaver", tiny_bert, {"kind": "seaver"}),
    ):
        scorer_of(model, config).save(tmp_path / name)
    return [tmp_path / name for name in ("cross", "bi", "seaver")]


def test_the_mean_of_the_answers(folders: list[Path]) -> None:
    answers = [raw(models.load(folder)) for folder in folders]
    np.testing.assert_allclose(raw(average(folders)), np.mean(answers, axis=0), atol=1e-6)
    expected = 0.15 * answers[0] + 0.15 * answers[1] + 0.7 * answers[2]
    np.testing.assert_allclose(raw(average(folders, weight=0.7)), expected, atol=1e-6)


def test_of_one_is_that_model(folders: list[Path]) -> None:
    np.testing.assert_array_equal(raw(average(folders[:1])), raw(models.load(folders[0])))
    assert average(folders[:1]).encoder.dimension == 32


def test_saved_and_loaded_again(folders: list[Path], tmp_path: Path) -> None:
    made = average(folders, weight=0.5)
    made.save(tmp_path / "mean")
    loaded = models.load(tmp_path / "mean")
    assert isinstance(loaded, ConditionalAverage) and loaded.weights == (0.25, 0.25, 0.5)
    np.testing.assert_array_equal(raw(loaded), raw(made))
    assert loaded.scale == (1.0, 5.0) and loaded.training_data == made.training_data
    assert takes_conditions(tmp_path / "mean")
    outer = average([tmp_path / "mean", folders[0]])
    np.testing.assert_allclose(
        raw(outer), (raw(made) + raw(models.load(folders[0]))) / 2, atol=1e-6
    )


def test_a_member_that_is_an_adapter_stays_one(
    tiny_bert: Path, tmp_path: Path, reserve: Callable[[str, Path], str]
) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "bi"})
    base = models.load(tiny_bert)
    weights = dict(scorer.encoder.backbone.named_parameters())
    name = next(name for name in weights if name.endswith("output.dense.weight"))
    weights[name].data[:5].add_(0.5)
    adapter = extract_adapter(base.backbone, scorer.encoder.backbone.state_dict(), rank=2)
    scorer.save_adapter(tmp_path / "small", adapter, base=reserve("tiny", tiny_bert))
    average([tmp_path / "small", tmp_path / "small"]).save(tmp_path / "mean")
    kept = {file.name for file in (tmp_path / "mean" / "member-1").iterdir()}
    assert kept == {"adapter.safetensors", "head.safetensors", "tertium.json"}
    again = raw(models.load(tmp_path / "mean"))
    np.testing.assert_allclose(again, raw(models.load(tmp_path / "small")), atol=1e-6)
    assert not np.allclose(again, raw(scorer_of(tiny_bert, {"kind": "bi"})), atol=1e-4)


def test_what_is_too_long_is_counted_once(folders: list[Path]) -> None:
    with pytest.warns(TruncationWarning, match="1 of 1 triples") as caught:
        average(folders[:1] * 2).score([("a", "b", "c " * 300)])
    assert len(caught) == 1


def test_several_models_have_no_single_encoder(folders: list[Path]) -> None:
    with pytest.raises(TertiumError, match="average of 2 models"):
        _ = average(folders[:2]).encoder
    with pytest.raises(TertiumError, match="gives no vectors"):
        average(folders[:2]).save(folders[0].parent / "mean")
        load_embedder(folders[0].parent / "mean")


def test_what_does_not_fit_is_refused(tiny_bert: Path, folders: list[Path]) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "cross"})
    other = scorer_of(tiny_bert, {"kind": "cross"})
    other.labels = OrderedLabels(0.0, 1.0)
    with pytest.raises(TertiumError, match="different scales cannot be averaged: 0 to 1, 1 to 5"):
        ConditionalAverage([scorer, other])
    with pytest.raises(TertiumError, match="one positive weight"):
        ConditionalAverage([scorer], weights=[0.0])
    with pytest.raises(TertiumError, match="at least one model"):
        ConditionalAverage([])
    with pytest.raises(TertiumError, match="does not take conditions"):
        average([folders[0], tiny_bert])


def test_a_broken_average_is_told(folders: list[Path], tmp_path: Path) -> None:
    average(folders[:2]).save(tmp_path / "mean")
    text = (tmp_path / "mean" / "tertium.json").read_text()
    (tmp_path / "mean" / "tertium.json").write_text(text.replace('"weight"', '"wait"'))
    with pytest.raises(TertiumError, match=r"details\.members\.0\.weight: Field required"):
        models.load(tmp_path / "mean")
