"""Folders and files that an earlier version wrote still load and give the same numbers.

``tests/fixtures/make.py`` says which version that was.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import CrossEncoder

import tertium
from tertium.corpus import Index
from tertium.errors import TertiumWarning
from tertium.jobs import encode_file, iter_scores, read_vectors
from tertium.recipes.files import read_recipe
from tertium.recipes.sweep import read_sweep
from tests.engines.models import runs_here

SAVED = Path(__file__).parent / "fixtures" / "saved"
EXPECTED: dict[str, Any] = json.loads((SAVED / "expected.json").read_text(encoding="utf-8"))
PAIRS = [tuple(pair) for pair in EXPECTED["pairs"]]
TRIPLES = [tuple(triple) for triple in EXPECTED["triples"]]
RECIPES = [json.loads(line) for line in (SAVED / "recipes.jsonl").read_text("utf-8").splitlines()]
# What recipes say since then to be closer to their papers.
CLOSER = (("train", "bucket"), ("train", "on_collapse"), ("data", "subset"))
SWEEPS: dict[str, list[str]] = json.loads((SAVED / "sweeps.json").read_text(encoding="utf-8"))


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may change, in the working folder: records name their models without a path."""
    folder = tmp_path / "saved"
    shutil.copytree(SAVED, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", EXPECTED["scores"])
def test_a_model_gives_the_same_scores(name: str, tmp_path: Path) -> None:
    model = tertium.load(SAVED / name)
    items = TRIPLES if model.takes_conditions else PAIRS
    expected = EXPECTED["scores"][name]
    np.testing.assert_allclose(model.score_items(items), expected, atol=2e-5)
    low, high = model.scale
    np.testing.assert_allclose(model.score(items), np.clip(expected, low, high), atol=2e-5)
    if name == "adapter":
        return  # whole, it would be as large as its base
    model.save(tmp_path / "again")
    np.testing.assert_allclose(
        tertium.load(tmp_path / "again").score_items(items), expected, atol=2e-5
    )


def test_a_cross_encoder_is_one_of_sentence_transformers() -> None:
    plain = CrossEncoder(str(SAVED / "conditional-seaver"), device="cpu", trust_remote_code=True)
    expected = EXPECTED["scores"]["conditional-seaver"]
    np.testing.assert_allclose(plain.predict(TRIPLES), expected, atol=2e-5)


def test_training_data_are_still_known() -> None:
    for name in ("encoder", "pair-cosine", "conditional-bi", "adapter", "average"):
        (known,) = tertium.load(SAVED / name).training_data
        assert (known.name, known.split, known.use) == ("STS-B", "train", "training")


@pytest.mark.usefixtures("saved")
def test_an_export_runs_the_model() -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
    with runs_here():
        model = tertium.load("exported", engine="onnx")
    np.testing.assert_allclose(model.score(PAIRS), EXPECTED["scores"]["exported"], atol=2e-5)


@pytest.mark.usefixtures("saved")
def test_an_index_is_searched_and_added_to() -> None:
    with pytest.warns(TertiumWarning, match="was converted"):
        index = Index.open("index")
    index.check()
    found = [(hit.id, hit.text, pytest.approx(hit.score, abs=1e-5)) for hit in _hits(index)]
    assert found == [tuple(hit) for hit in EXPECTED["hits"]]
    assert index.add(["a red cat"]) == 1 and len(index) == 5
    assert len(_hits(Index.open("index"))) == 5


def _hits(index: Index) -> list[Any]:
    return index.search("the cat", top_k=5)


@pytest.mark.usefixtures("saved")
def test_a_finished_job_is_read_and_not_made_again() -> None:
    np.testing.assert_allclose(read_vectors("vectors"), EXPECTED["vectors"], atol=1e-5)
    blocks = list(iter_scores("scores"))
    assert [pair for block in blocks for pair in block.texts] == PAIRS
    scores = np.concatenate([block.scores for block in blocks])
    np.testing.assert_allclose(scores, EXPECTED["scores"]["pair-cosine"], atol=1e-5)
    assert encode_file("texts.txt", "vectors", model="encoder", shard_rows=3).made == 0


@pytest.mark.usefixtures("saved")
def test_a_recipe_of_ones_own() -> None:
    recipe = read_recipe("recipe.yaml")
    (stage,) = recipe.stages
    assert stage.objectives[0].kind == "smooth_k2" and stage.train.epochs == 2
    names = [variant.name for variant in read_sweep("sweep.yaml").variants()]
    assert names == ["cosine", "slope=1.0", "slope=3.0"]


@pytest.mark.parametrize("before", RECIPES, ids=lambda recipe: recipe["name"])
def test_a_packaged_recipe_says_what_it_said(before: dict[str, Any]) -> None:
    now = read_recipe(before["name"]).model_dump(mode="json", exclude_defaults=True)
    for added in {"summary", "source", "extends", "evaluate", "published_transfer"} & now.keys():
        del now[added]
    for stage, old in zip(now["stages"], before["stages"], strict=True):
        for part, key in CLOSER:
            if key not in old.get(part, {}):
                stage.get(part, {}).pop(key, None)
        stage["objectives"] = [objective["kind"] for objective in stage["objectives"]]
        if "head" in stage:
            stage["head"] = stage["head"]["kind"]
    assert {"name": before["name"], **now} == before


@pytest.mark.parametrize("name", SWEEPS)
def test_a_packaged_sweep_has_its_variants(name: str) -> None:
    now = [variant.name for variant in read_sweep(name).variants()]
    assert [variant for variant in now if variant in SWEEPS[name]] == SWEEPS[name]
