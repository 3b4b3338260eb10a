from pathlib import Path
from typing import Any

from tertium.analysis import attention_map_figure, sentence_attention
from tests.fakes import tiny_model
from tests.models.test_towers import loaded


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
