from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.engines.static import (
    agreement,
    distil_static,
    frequency_weights,
    principal_components,
)
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.types import Kind
from tests.engines.models import write


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_tokens_are_encoded_alone(name: str, pooling: str, request: pytest.FixtureRequest) -> None:
    encoder = tertium.load(request.getfixturevalue(name), pooling=pooling, engine="torch")
    assert isinstance(encoder, Encoder)
    static = distil_static(encoder, dimensions=99, whitening=0)
    assert static.dimension == encoder.dimension  # no more than there are
    words = ["cat", "dog", "sleeps", "barks", "the", "."]
    vocabulary = encoder.tokenizer.get_vocab()
    special = set(encoder.tokenizer.all_special_ids)
    order = [token for token, at in sorted(vocabulary.items(), key=lambda x: x[1])]
    ranked = [token for token in order if vocabulary[token] not in special]
    weights = frequency_weights(len(ranked), smoothing=1e-4)
    full, found = encoder.encode(ranked), static.encode(words)
    rows = [ranked.index(word) for word in words]
    # All axes are kept, so that distances are those of the encoder's own vectors.
    centred = (full - full.mean(axis=0))[rows] * weights[rows][:, None]
    np.testing.assert_allclose(found @ found.T, centred @ centred.T, atol=1e-4)
    assert -1 <= agreement(static, encoder) <= 1


def test_principal_components() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 6)) * [9, 1, 5, 1, 1, 1] + 3
    found = principal_components(rows, 2)
    assert found.shape == (50, 2)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    singular = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), singular[:2])
    white = principal_components(rows, 2, whitening=1)
    np.testing.assert_allclose(white.std(axis=0), 1)
    np.testing.assert_allclose(np.corrcoef(white[:, 0], found[:, 0])[0, 1], 1)


def test_tokens_keep_the_lengths_that_normalisation_takes(tiny_bert: Path) -> None:
    plain = tertium.load(tiny_bert, engine="torch").with_pooling("mean", normalize=False)  # type: ignore[union-attr]
    normalized = plain.with_pooling("mean", normalize=True)
    one, other = (distil_static(encoder) for encoder in (plain, normalized))
    expected = one.encode(["cat dog"], normalize=True)
    np.testing.assert_allclose(other.encode(["cat dog"]), expected, atol=1e-6)


def test_frequent_tokens_count_for_less() -> None:
    weights = frequency_weights(100, smoothing=1e-3)
    assert (np.diff(weights) > 0).all() and 0 < weights[0] < weights[-1] < 1


def test_loaded_by_its_engine(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tertium.load(tiny_bert, engine="static")
    assert first.kind is Kind.STATIC and first.name == str(tiny_bert)

    def never(*args: object, **options: object) -> None:
        raise AssertionError("it was distilled before")

    monkeypatch.setattr("tertium.engines.static.distil_static", never)
    again = tertium.load(tiny_bert, engine="static")
    np.testing.assert_array_equal(again.encode(["a cat"]), first.encode(["a cat"]))  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["pair", "ensemble", "tri"])
def test_only_an_encoder_has_a_static_copy(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="it is not a single transformer encoder"):
        tertium.load(write(kind, tmp_path), engine="static")
