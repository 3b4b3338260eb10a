from pathlib import Path

import pytest

from tertium.errors import TertiumError
from tertium.recipes.data import load_examples
from tertium.recipes.files import RecipeError, read_recipe
from tertium.recipes.schema import StageSpec
from tests.recipes.toys import contrast_stage, toy_text_file


def test_a_translation_must_fit_its_original(tmp_path: Path) -> None:
    original, translated = toy_text_file(tmp_path / "en.txt"), toy_text_file(tmp_path / "de.txt")
    stage = contrast_stage(translated)
    stage["data"]["sources"][0]["translation_of"] = str(original)
    assert len(load_examples(StageSpec.model_validate(stage), folder=None).examples) == 24
    toy_text_file(translated, 20)
    with pytest.raises(TertiumError, match=r"de\.txt ends after 20 texts"):
        load_examples(StageSpec.model_validate(stage), folder=None)


def test_a_benchmark_set_translates_nothing() -> None:
    wrong = {"stages.contrast.data.sources": [{"name": "wiki", "translation_of": "a.txt"}]}
    with pytest.raises(RecipeError, match="translation_of is for a file"):
        read_recipe("simcse-minilm", settings=wrong)
