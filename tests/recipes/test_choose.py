from pathlib import Path

import pytest

from tertium.data.columns import Columns
from tertium.data.shapes import recognise
from tertium.errors import TertiumError
from tertium.recipes.choose import choose
from tertium.recipes.data import load_examples
from tertium.recipes.files import RecipeError, read_recipe


def _file(tmp_path: Path, header: str, cells: str, rows: int = 40) -> Path:
    """``cells`` may count the rows with {n} and vary with {odd}."""
    path = tmp_path / "own.tsv"
    lines = [cells.format(n=n, odd=n % 2, word="far" if n % 2 else "near") for n in range(rows)]
    path.write_text("\n".join([header, *lines]).replace(",", "\t") + "\n")
    return path


SHAPES = {
    "sts-regression-minilm": ("a,b,score", "A {n},B {n},{odd}.5"),
    "cosent-minilm": ("question1,question2,is_duplicate", "A {n},B {n},{odd}"),
    "mnr-pairs-minilm": ("anchor,positive", "A {n},B {n}"),
    "mnr-triplets-minilm": ("anchor,positive,negative", "A {n},B {n},C {n}"),
    "simcse-minilm": ("text,id", "A text {n},{n}"),
    "csts-bi-minilm": ("a,b,condition,label", "A {n},B {n},size,{odd}"),
}


@pytest.mark.parametrize("name", list(SHAPES))
def test_each_shape_has_its_recipe_and_fills_it(tmp_path: Path, name: str) -> None:
    choice = choose(recognise(_file(tmp_path, *SHAPES[name])))
    assert choice.recipe == name and choice.reasons[0].startswith(f"recipe {name}: ")
    recipe = read_recipe(choice.recipe, settings=choice.settings)
    if recipe.stages[-1].head is None:
        found = load_examples(recipe.stages[-1], folder=None)
        assert found.amount.used == 40 and found.examples[0][0][0].startswith("A ")


def test_size_decides_about_passes_batches_and_the_checkpoint(tmp_path: Path) -> None:
    few = choose(recognise(_file(tmp_path, *SHAPES["cosent-minilm"], rows=20)))
    assert few.settings["stages.0.select"] is None and few.settings["stages.0.train.epochs"] == 4
    many = choose(recognise(_file(tmp_path, *SHAPES["cosent-minilm"], rows=2000)))
    assert many.settings["stages.0.select"]["task"] == "held-out"
    assert "stages.0.train.epochs" not in many.settings
    pairs = choose(recognise(_file(tmp_path, *SHAPES["mnr-pairs-minilm"], rows=20)))
    assert pairs.settings["stages.0.train.batch_size"] == 4


def test_a_dead_zone_keeps_its_width_in_steps(tmp_path: Path) -> None:
    path = _file(tmp_path, "a,b,score", "A {n},B {n},0.{odd}7")
    choice = choose(recognise(path))
    recipe = read_recipe(choice.recipe, settings=choice.settings)
    assert recipe.stages[0].data.labels is not None
    assert (recipe.stages[0].data.labels.high, recipe.stages[0].data.labels.step) == (1.0, 0.2)
    assert recipe.stages[0].objectives[0].settings()["threshold"] == pytest.approx(0.05)


def test_a_recipe_that_is_asked_for(tmp_path: Path) -> None:
    found = recognise(_file(tmp_path, *SHAPES["sts-regression-minilm"]))
    choice = choose(found, recipe="angle-minilm")
    assert list(choice.settings) == ["stages.0.data"]
    with pytest.raises(
        TertiumError, match=r"'simcse-minilm' learns from texts, and the file holds"
    ):
        choose(found, recipe="simcse-minilm")


def test_what_cannot_be_learned_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="--shape positives"):
        choose(recognise(_file(tmp_path, "a,b", "A {n},B {n}")))
    with pytest.raises(TertiumError, match="3 rows, too few"):
        choose(recognise(_file(tmp_path, *SHAPES["cosent-minilm"], rows=3)))


def test_words_raters_and_html_reach_the_examples(tmp_path: Path) -> None:
    path = _file(tmp_path, "left,right,ann,bob", "<b>A</b> {n},B {n},{word},near")
    columns = Columns.parse(
        column1="left", column2="right", label_column="ann,bob", strip_html=True
    )
    choice = choose(recognise(path, columns=columns, labels=["far", "near"]))
    stage = read_recipe(choice.recipe, settings=choice.settings).stages[0]
    found = load_examples(stage, folder=None)
    assert found.examples[0][0] == ("A 0", "B 0") and set(found.examples.labels or ()) == {0.5, 1.0}


def test_an_objective_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_losses.py").write_text(
        "from tertium.functional import cosine_pairs\n"
        "from tertium.objectives import Objective\n"
        "from tertium.types import Term\n"
        "class Gap(Objective):\n"
        "    learns_from = frozenset({'graded'})\n"
        "    def __init__(self, *, power: float = 2.0):\n"
        "        super().__init__()\n"
        "        self.power = power\n"
        "    def terms(self, views):\n"
        "        first, second = views.first.embedding, views.second.embedding\n"
        "        gap = cosine_pairs(first, second) - views.targets\n"
        "        return {'gap': Term(gap.abs() ** self.power)}\n"
    )
    monkeypatch.chdir(tmp_path)
    own = {"stages.0.objectives": [{"kind": "my_losses:Gap", "power": 3}]}
    recipe = read_recipe("cosent-minilm", settings=own)
    assert recipe.stages[0].objectives[0].settings() == {"power": 3.0}
    for wrong, message in {
        "my_losses:Missing": "was not found",
        "no_such_module:Gap": "was not found",
        "my_losses:cosine_pairs": "is not a subclass",
    }.items():
        with pytest.raises(RecipeError, match=message):
            read_recipe("cosent-minilm", settings={"stages.0.objectives": [{"kind": wrong}]})
    with pytest.raises(RecipeError, match="learns from graded pairs, not texts"):
        read_recipe("simcse-minilm", settings=own)
    with pytest.raises(RecipeError, match="powr"):
        read_recipe(
            "cosent-minilm",
            settings={"stages.0.objectives": [{"kind": "my_losses:Gap", "powr": 3}]},
        )
