import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

from tertium import models
from tertium.errors import TertiumError
from tertium.models import Encoder, Ensemble
from tertium.models.loading import combine
from tertium.models.mixture import member_weights
from tertium.models.surgery import join_towers
from tertium.models.tokens import TokenizationStats, TruncationWarning
from tertium.records.manifest import FILE_NAME, TrainingData
from tests.fakes import tiny_model

TEXTS = ["the cat sleeps .", "a dog barks", "", "a b c d e f g", "a dog barks"]


@pytest.fixture(scope="module")
def folders(
    tiny_bert: Path, tiny_roberta: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Two architectures with their own tokenizers, and one of them with other weights."""
    other = tmp_path_factory.mktemp("other") / "other"
    models.load(tiny_bert, pooling="cls").save(other)
    model = AutoModel.from_pretrained(other)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    model.save_pretrained(other)
    return [tiny_bert, tiny_roberta, other]


def rows(folder: Path) -> np.ndarray:
    return models.load(folder).encode(TEXTS)


def test_an_ensemble_of_one_is_that_model(tiny_bert: Path) -> None:
    np.testing.assert_array_equal(combine([tiny_bert]).encode(TEXTS), rows(tiny_bert))
    assert combine([tiny_bert]).encoder.name == str(tiny_bert)


def test_the_embedding_is_the_sum(folders: list[Path]) -> None:
    expected = sum(rows(folder) for folder in folders)
    found = combine(folders)
    np.testing.assert_allclose(found.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(found.encode(TEXTS[0]), expected[0], atol=1e-5)
    unit = found.encode(TEXTS, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
    cosine = unit[0] @ unit[1]
    np.testing.assert_allclose(found.score([(TEXTS[0], TEXTS[1])]), [cosine], atol=1e-5)
    np.testing.assert_allclose(found.cosine([(TEXTS[0], TEXTS[1])]), [cosine], atol=1e-5)


def test_the_last_may_have_a_weight(folders: list[Path]) -> None:
    one, two, three = map(rows, folders)
    found = combine(folders, weight=0.7).encode(TEXTS)
    np.testing.assert_allclose(found, 0.3 * (one + two) + 0.7 * three, atol=1e-5)


def test_an_ensemble_of_ensembles_is_flat(folders: list[Path], tmp_path: Path) -> None:
    combine(folders[:2]).save(tmp_path / "pair")
    outer = combine([tmp_path / "pair", folders[2]], weight=0.7)
    assert [member.weight for member in outer.members] == pytest.approx([0.3, 0.3, 0.7])
    expected = combine(folders, weight=0.7).encode(TEXTS)
    np.testing.assert_allclose(outer.encode(TEXTS), expected, atol=1e-5)


def test_no_texts(folders: list[Path]) -> None:
    assert combine(folders).encode([]).shape == (0, 32)


@pytest.mark.parametrize("weight", [0.0, 1.0, -0.5, 1.5, float("nan"), float("inf")])
def test_absurd_weights(weight: float) -> None:
    with pytest.raises(TertiumError, match="between 0 and 1"):
        member_weights(2, weight)


def test_a_weight_needs_company() -> None:
    with pytest.raises(TertiumError, match="at least two models"):
        member_weights(1, 0.5)
    with pytest.raises(TertiumError, match="at least one"):
        combine([])
    with pytest.raises(TertiumError, match="at least one"):
        Ensemble([])


def test_widths_must_agree(tiny_bert: Path, tmp_path: Path) -> None:
    wide = tiny_model(tmp_path / "wide", width=48)
    with pytest.raises(TertiumError, match=r"different widths.*32.*48"):
        combine([tiny_bert, wide])


@pytest.mark.integration
@pytest.mark.long
def test_a_saved_ensemble_is_the_same_in_a_new_process(folders: list[Path], tmp_path: Path) -> None:
    made = combine(folders, weight=0.7)
    made.save(tmp_path / "three")
    again = models.load(tmp_path / "three")
    assert isinstance(again, Ensemble)
    assert again.name == str(tmp_path / "three") and again.dimension == 32
    np.testing.assert_array_equal(again.encode(TEXTS), made.encode(TEXTS))
    script = (
        "import json, sys, tertium;"
        "print(json.dumps(tertium.load(sys.argv[1]).encode(json.loads(sys.argv[2])).tolist()))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "three"), json.dumps(TEXTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    np.testing.assert_allclose(json.loads(ran.stdout), made.encode(TEXTS), atol=1e-5)


def test_members_are_plain_models_without_pickles(folders: list[Path], tmp_path: Path) -> None:
    combine(folders).save(tmp_path / "three")
    endings = {path.suffix for path in (tmp_path / "three").rglob("*") if path.is_file()}
    assert endings <= {".json", ".safetensors", ".txt"}
    for number, folder in enumerate(folders, 1):
        stock = SentenceTransformer(str(tmp_path / "three" / f"member-{number}"), device="cpu")
        np.testing.assert_allclose(stock.encode(TEXTS), rows(folder), atol=1e-5)


def test_a_twin_is_a_member_like_any_other(folders: list[Path], tmp_path: Path) -> None:
    towers = [models.load(folder, pooling="cls") for folder in (folders[0], folders[2])]
    assert all(isinstance(tower, Encoder) for tower in towers)
    join_towers(*towers).save(tmp_path / "twin")  # type: ignore[arg-type]
    combine([tmp_path / "twin", folders[1]], weight=0.7).save(tmp_path / "uc")
    expected = 0.3 * sum(tower.encode(TEXTS) for tower in towers) + 0.7 * rows(folders[1])
    np.testing.assert_allclose(models.load(tmp_path / "uc").encode(TEXTS), expected, atol=1e-5)
    stock = SentenceTransformer(str(tmp_path / "uc" / "member-1"), device="cpu")
    np.testing.assert_allclose(stock.encode(TEXTS), rows(tmp_path / "twin"), atol=1e-5)


def test_what_members_have_in_common(folders: list[Path]) -> None:
    bert, roberta = (models.load(folder) for folder in folders[:2])
    assert isinstance(bert, Encoder) and isinstance(roberta, Encoder)
    bert.training_data = (TrainingData(name="a"), TrainingData(name="b"))
    roberta.training_data = (TrainingData(name="b"),)
    both = Ensemble([bert, roberta])
    assert [data.name for data in both.training_data] == ["a", "b"]
    assert both.pooling == "mean"
    assert combine(folders).pooling is None
    assert combine(folders, pooling="cls").pooling == "cls"


def test_options_reach_every_member(folders: list[Path], tmp_path: Path) -> None:
    combine(folders[:2]).save(tmp_path / "both")
    short = models.load(tmp_path / "both", pooling="cls", max_length=4)
    assert isinstance(short, Ensemble)
    for member in short.members:
        assert (member.encoder.pooling, member.encoder.max_length) == ("cls", 4)
    expected = sum(models.load(f, pooling="cls", max_length=4).encode("a b") for f in folders[:2])
    np.testing.assert_allclose(short.encode("a b"), expected, atol=1e-5)


def test_cut_texts_are_reported_once(folders: list[Path]) -> None:
    both = combine(folders[:2])
    both.members[0].encoder.model.max_seq_length = 4
    with pytest.warns(TruncationWarning, match="1 of 2 distinct texts had more than 4") as caught:
        both.encode(["a b c d e f", "a"])
    assert len(caught) == 1
    counted = TokenizationStats()
    both.encode(["a b c d e f", "a"], truncation=counted)
    assert (counted.cut, counted.texts) == (1, 2)


def test_what_needs_a_single_model_says_so(folders: list[Path]) -> None:
    with pytest.raises(TertiumError, match=r"ensemble of 2 models.*tertium distil"):
        _ = combine(folders[:2]).encoder


def test_a_broken_folder(folders: list[Path], tiny_bert: Path, tmp_path: Path) -> None:
    combine(folders[:2]).save(tmp_path / "both")
    (tmp_path / "both" / "member-2").rename(tmp_path / "gone")
    with pytest.raises(TertiumError, match="member-2 is missing"):
        models.load(tmp_path / "both")
    (tmp_path / "gone").rename(tmp_path / "both" / "member-2")
    manifest = tmp_path / "both" / "member-2" / FILE_NAME
    manifest.write_text(manifest.read_text().replace('"encoder"', '"pair"'))
    with pytest.raises(TertiumError, match="'pair' is not one of encoder, twin, static"):
        models.load(tmp_path / "both")
