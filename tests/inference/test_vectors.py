import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tertium.errors import TertiumError
from tertium.inference.vectors import map_vectors
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
