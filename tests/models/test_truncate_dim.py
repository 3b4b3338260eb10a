"""Vectors that are cut, by every way to a vector."""

from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.corpus import Index
from tertium.engines.loading import load_embedder
from tertium.errors import TertiumError
from tertium.models.base import unit_rows

TEXTS = ["the cat sleeps .", "a dog barks .", "", "the cat"]


@pytest.mark.parametrize("engine", ["default", "torch", "static"])
def test_the_beginning_of_every_vector(engine: str, tiny_bert: Path) -> None:
    whole = load_embedder(tiny_bert, engine=engine)
    short = load_embedder(tiny_bert, engine=engine, truncate_dim=8)
    expected = whole.encode(TEXTS)[:, :8]
    assert (short.dimension, whole.dimension) == (8, 32)
    np.testing.assert_allclose(short.encode(TEXTS), expected, atol=1e-6)
    cosine = unit_rows(expected[:1]) @ unit_rows(expected[1:2]).T
    np.testing.assert_allclose(short.score([(TEXTS[0], TEXTS[1])]), cosine[0], atol=1e-6)
    assert short.fingerprint != whole.fingerprint


def test_unit_vectors_stay_so() -> None:
    short, whole = load_embedder(truncate_dim=64), load_embedder()
    np.testing.assert_allclose(short.encode(TEXTS), unit_rows(whole.encode(TEXTS)[:, :64]))


def test_an_index_knows_the_length_of_its_vectors(tiny_bert: Path, tmp_path: Path) -> None:
    Index.build(tmp_path / "index", TEXTS[:2], load_embedder(tiny_bert, truncate_dim=8))
    opened = Index.open(tmp_path / "index")
    assert opened.model.dimension == opened.manifest.model.truncate_dim == 8
    assert opened.search("the cat sleeps .", top_k=1)[0].text == TEXTS[0]
    with pytest.raises(TertiumError, match="vectors of width 32, the index has 8"):
        Index.open(tmp_path / "index", load_embedder(tiny_bert)).search("a")


def test_what_cannot_be_cut(tiny_bert: Path) -> None:
    with pytest.raises(TertiumError, match="choose 1 to 32"):
        tertium.load(tiny_bert, truncate_dim=33)
    with pytest.raises(TertiumError, match="for a single encoder, which sts is not"):
        tertium.load("sts", truncate_dim=64)
