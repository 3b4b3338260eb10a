"""Fewer layers of the same encoder."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from tertium import models
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.surgery import keep_layers, spread
from tertium.types import Tokens

TEXTS = ["the cat sleeps .", "a dog barks"]


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    loaded = models.load(tiny_bert)
    assert isinstance(loaded, Encoder)
    return loaded


def test_even_distances_end_with_the_last() -> None:
    assert spread(6, 3) == (2, 4, 6) and spread(6, 1) == (6,) and spread(6, 6) == (1, 2, 3, 4, 5, 6)
    for depth in range(1, 15):
        for count in range(1, depth + 1):
            found = spread(depth, count)
            assert len(set(found)) == count and found[-1] == depth and found[0] >= 1
    with pytest.raises(TertiumError, match="0 of 6 layers cannot be kept: choose from 1 to 6"):
        spread(6, 0)


def test_the_first_layers_alone_give_the_hidden_states_there(encoder: Encoder) -> None:
    short = keep_layers(encoder, [1, 2])
    tokens = encoder.tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        inside = encoder.backbone(**tokens, output_hidden_states=True).hidden_states[2]
        alone = short.backbone(**tokens).last_hidden_state
    torch.testing.assert_close(alone, inside)
    assert int(encoder.backbone.config.num_hidden_layers) == 3  # a copy was cut, not this one


def test_it_is_saved_and_loaded_and_shows_its_attention(encoder: Encoder, tmp_path: Path) -> None:
    short = keep_layers(encoder, [1, 3])
    short.save(tmp_path / "short")
    expected = short.encode(TEXTS)
    np.testing.assert_allclose(models.load(tmp_path / "short").encode(TEXTS), expected, atol=1e-6)
    plain = SentenceTransformer(str(tmp_path / "short"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), expected, atol=1e-6)
    tokens = short.tokenizer(TEXTS, return_tensors="pt", padding=True)
    seen = short.attention(Tokens(tokens["input_ids"], tokens["attention_mask"]))
    assert seen.shape[:2] == (2, 2)
    assert np.abs(expected - encoder.encode(TEXTS)).max() > 1e-3


@pytest.mark.parametrize("layers", [[], [0, 1], [2, 1], [1, 1], [1, 4]])
def test_other_numbers_are_refused(encoder: Encoder, layers: list[int]) -> None:
    with pytest.raises(TertiumError, match="cannot be kept: name some from 1 to 3, in order"):
        keep_layers(encoder, layers)
