import json
from pathlib import Path
from typing import Any

import pytest

from tertium.data import DATASETS
from tertium.errors import TertiumError, TertiumWarning
from tertium.recipes.data import Amount, load_examples
from tertium.recipes.files import read_recipe, recipe_names
from tertium.recipes.schema import DataSpec
from tertium.recipes.train import train
from tertium.recipes.triples import load_triples
from tests.recipes.toys import contrast_stage, toy_recipe, toy_text_file

# What recipes that follow no paper's setting start from: our models, and the small testbed's.
OUR_OWN = ("default", "sts", "sts-fast", "base", "./naive-bert", "./towers-naive")
PAPERS = [
    name
    for name in recipe_names()
    for recipe in [read_recipe(name)]
    if recipe.encoder.model not in OUR_OWN
    and all(source.file is None for stage in recipe.stages for source in stage.data.sources)
]


def spec(*sources: dict[str, Any], **settings: Any) -> DataSpec:
    return DataSpec.model_validate({"kind": "texts", "sources": sources, **settings})


def whole(data: DataSpec) -> int:
    """What the full public files hold for a stage."""
    both_sides = {"SICK-R": 2} if data.kind == "texts" else {}
    rows = [
        DATASETS[str(s.name)].rows[s.split] * both_sides.get(str(s.name), 1) for s in data.sources
    ]
    return sum(rows)


@pytest.mark.parametrize("name", PAPERS)
def test_every_recipe_of_a_paper_states_a_size_that_the_public_files_have(name: str) -> None:
    for stage in read_recipe(name).stages:
        asked = stage.data.published
        assert asked is not None
        assert stage.data.limit in (None, asked)
        assert asked == (stage.data.limit or whole(stage.data))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("micse-bert", 1_000_000),
        ("micse-bert-10-percent", 100_000),
        ("simcse-sup-roberta", 275_601),
        ("sts-regression-roberta-mse", 942_069),
        ("seaver-simcse-large", 11_342),
    ],
)
def test_the_published_size_is_inherited(name: str, published: int) -> None:
    assert read_recipe(name).stages[0].data.published == published


WIKI = {"name": "wiki"}


@pytest.mark.parametrize(
    ("data", "found", "kept", "text", "short"),
    [
        (spec(WIKI, published=1_000_000), [58_674], 58_674, "58,674 of 1,000,000 sentences", True),
        (spec(WIKI, published=1_000), [1_000], 990, "1,000 sentences", False),  # some repeat
        (spec(WIKI, published=100, limit=100), [60], 60, "60 of 100 sentences", True),
        (spec(WIKI, published=1_000, limit=50), [60], 50, "50 of 1,000 sentences", False),
        (spec(WIKI, limit=100), [60], 60, "60 of 100 sentences", True),
        (spec(WIKI, limit=100), [300], 100, "100 sentences", False),
        (spec(WIKI), [60], 60, "60 sentences", False),
        (spec({**WIKI, "limit": 80}, WIKI), [60, 60], 120, "120 of 140 sentences", True),
        (spec({"file": "own.txt"}, published=1_000), [60], 60, "60 sentences", False),
        (spec({"file": "own.txt"}, limit=100), [60], 60, "60 of 100 sentences", True),
    ],
)
def test_what_is_found_is_compared_with_what_is_asked_for(
    data: DataSpec, found: list[int], kept: int, text: str, short: bool
) -> None:
    amount = Amount.count(data, found, kept=kept)
    assert (str(amount), amount.short) == (text, short)
    assert Amount(**json.loads(json.dumps(amount.to_json()))) == amount


def wiki_recipe(tmp_path: Path, model: Path, published: int | None) -> str:
    data = {"kind": "texts", "sources": [WIKI], "published": published}
    return toy_recipe(tmp_path / "toy.yaml", model, contrast_stage(Path("x"), data=data))


def test_less_than_published_is_said_once_and_written_down(
    tiny_bert: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = wiki_recipe(tmp_path, tiny_bert, 1000)
    with pytest.warns(TertiumWarning) as caught:
        trained = train(recipe, tmp_path / "model", data=benchmarks_folder, evaluate_after=False)
    about = [str(entry.message) for entry in caught if "less data" in str(entry.message)]
    assert len(about) == len(caught) == 1
    assert "toy.yaml finds less data than it asks for: 24 of 1,000 sentences in stage" in about[0]
    assert str(trained.data["contrast"]) == "24 of 1,000 sentences"
    card = (trained.folder / "README.md").read_text("utf-8")
    assert "Stage `contrast` ran on 24 of 1,000 sentences." in card
    record = json.loads((trained.folder / "run" / "data.json").read_text())
    assert record["contrast"]["amount"] == {
        "used": 24,
        "of": 1000,
        "unit": "sentences",
        "short": True,
    }


def test_strict_data_stops_before_anything_is_written(
    tiny_bert: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = wiki_recipe(tmp_path, tiny_bert, 1000)
    with pytest.raises(TertiumError, match=r"24 of 1,000 sentences in stage contrast\. Put the"):
        train(recipe, tmp_path / "model", data=benchmarks_folder, strict_data=True)
    assert not (tmp_path / "model").exists()


def test_the_published_size_itself_is_enough(
    tiny_bert: Path, benchmarks_folder: Path, tmp_path: Path
) -> None:
    recipe = wiki_recipe(tmp_path, tiny_bert, 24)  # any warning would fail this test
    out = tmp_path / "model"
    train(recipe, out, data=benchmarks_folder, evaluate_after=False, strict_data=True)
    assert "Stage `contrast` ran on 24 sentences." in (out / "README.md").read_text("utf-8")


def test_own_texts_are_not_compared_with_the_paper(tmp_path: Path) -> None:
    texts = toy_text_file(tmp_path / "own.txt")
    stage = contrast_stage(texts)
    stage["data"]["published"] = 1000
    recipe = read_recipe(toy_recipe(tmp_path / "toy.yaml", Path("default"), stage))
    assert str(load_examples(recipe.stages[0], folder=None).amount) == "24 sentences"


@pytest.mark.parametrize("kind", ["graded", "triplets", "conditional"])
def test_other_kinds_are_counted_too(kind: str, benchmarks_folder: Path) -> None:
    name = {
        "graded": "sts-regression-bert",
        "triplets": "simcse-sup-bert",
        "conditional": "seaver-roberta",
    }[kind]
    stage = read_recipe(name, settings={"stages.0.train.batch_size": 8}).stages[0]
    load = load_triples if kind == "conditional" else load_examples
    amount = load(stage, folder=benchmarks_folder).amount
    assert amount.short and str(amount) in {
        "12 of 942,069 pairs",
        "12 of 275,601 triplets",
        "48 of 11,342 triples",
    }
