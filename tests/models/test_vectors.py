import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from tertium.data.labels import OrderedLabels
from tertium.engines.static import distil_static
from tertium.errors import TertiumError
from tertium.heads import CosineHead
from tertium.models import Encoder, Ensemble, PairScorer
from tertium.models.tokens import TokenizationStats
from tertium.models.vectors import map_vectors
from tertium.types import Pooling
from tests.fakes import HashEncoder

TEXTS = [f"text {number}" for number in range(10)]


class Stops(HashEncoder):
    """Fails after some texts, as a kill would."""

    left = 5

    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        if len(texts) > self.left:
            raise KeyboardInterrupt
        self.left -= len(texts)
        return super().encode(texts, **options)


def test_rows_are_the_models_and_stay_in_the_file(tmp_path: Path) -> None:
    model = HashEncoder()
    found = map_vectors(model, TEXTS, tmp_path / "new" / "v.npy", chunk=3)
    assert isinstance(found, np.memmap) and not found.flags.writeable
    np.testing.assert_array_equal(found, HashEncoder().encode(TEXTS))
    again = HashEncoder()
    np.testing.assert_array_equal(map_vectors(again, TEXTS, tmp_path / "new" / "v.npy"), found)
    assert again.seen == []


def test_an_interruption_loses_little(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    with pytest.raises(KeyboardInterrupt):
        map_vectors(Stops(), TEXTS, path, chunk=2)
    assert json.loads(path.with_suffix(".json").read_text())["done"] == 4
    after = HashEncoder()
    found = map_vectors(after, TEXTS, path, chunk=2)
    assert after.seen == TEXTS[4:]
    np.testing.assert_array_equal(found, HashEncoder().encode(TEXTS))


@pytest.mark.parametrize(
    ("model", "texts"),
    [(HashEncoder("other"), TEXTS), (HashEncoder(dimension=4), TEXTS), (HashEncoder(), TEXTS[1:])],
    ids=["model", "width", "texts"],
)
def test_something_else_begins_anew(
    tmp_path: Path, model: HashEncoder, texts: Sequence[str]
) -> None:
    map_vectors(HashEncoder(), TEXTS, tmp_path / "v.npy")
    found = map_vectors(model, texts, tmp_path / "v.npy")
    assert list(model.seen) == list(texts)
    np.testing.assert_array_equal(found, type(model)(model.name, model.dimension).encode(texts))


@pytest.mark.filterwarnings("ignore::tertium.models.tokens.TruncationWarning")
@pytest.mark.parametrize("kind", ["encoder", "ensemble", "pair", "static"])
def test_vectors_are_found_by_the_models_content_and_not_by_its_name(
    kind: str, tiny_bert: Path, tmp_path: Path
) -> None:
    texts = [f"the cat {letter}" for letter in "abcdefgh"]

    def build(name: str = "one", **options: Any) -> Any:
        encoder = Encoder.load(tiny_bert, name=name, **options)
        if kind == "ensemble":
            return Ensemble([encoder, encoder], name=name)
        if kind == "pair":
            return PairScorer(encoder, CosineHead(), OrderedLabels(0.0, 5.0))
        return distil_static(encoder) if kind == "static" else encoder

    def made(model: Any) -> int:
        """How many texts were encoded for the file."""
        with patch.object(model, "encode", wraps=model.encode) as spy:
            found = map_vectors(model, texts, tmp_path / "v.npy")
        np.testing.assert_allclose(found, model.encode(texts), atol=1e-5)
        return sum(len(call.args[0]) for call in spy.call_args_list)

    def weights(model: Any) -> Any:
        inside = model.members[0].encoder if kind == "ensemble" else model
        return (inside.encoder if kind == "pair" else inside).model.parameters()

    used = build()
    used.encode(["x " * 100], truncation=TokenizationStats())
    assert made(used) == len(texts)
    assert made(build()) == 0
    assert made(build("another")) == 0
    changed = build()
    with torch.no_grad():
        next(iter(weights(changed))).mul_(1.1)
    assert made(changed) == len(texts)
    if kind != "static":
        assert made(build(max_length=3)) == len(texts)
        assert made(build(max_length=3, pooling=Pooling.CLS)) == len(texts)


def test_texts_are_told_apart_by_more_than_their_joined_lines(tmp_path: Path) -> None:
    map_vectors(HashEncoder(), ["a\nb", "c"], tmp_path / "v.npy")
    again = HashEncoder()
    map_vectors(again, ["a", "b\nc"], tmp_path / "v.npy")
    assert again.seen == ["a", "b\nc"]


def test_nothing_to_embed(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="no texts"):
        map_vectors(HashEncoder(), [], tmp_path / "v.npy")


def test_a_broken_teacher_is_named_with_its_text(tmp_path: Path) -> None:
    class Broken(HashEncoder):
        def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
            rows = super().encode(texts, **options)
            rows[[text == "text 7" for text in texts]] = np.nan
            return rows

    with pytest.raises(TertiumError, match="not finite for 'text 7'"):
        map_vectors(Broken(), TEXTS, tmp_path / "v.npy", chunk=4)
