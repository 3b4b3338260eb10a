from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tertium.analysis import (
    attention_map_figure,
    attention_sinks,
    sentence_attention,
    sink_figure,
)
from tertium.analysis.sinks import Role, token_roles
from tertium.errors import TertiumError
from tertium.models.towers import join_towers
from tertium.types import Tokens
from tests.models.test_towers import loaded, other_weights

TEXTS = ["the cat sleeps .", "a b c", "the dog barks , the cat sleeps ."]


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_roles_of_tokens(model: str, request: pytest.FixtureRequest) -> None:
    encoder = loaded(request.getfixturevalue(model))
    ids = encoder.features([TEXTS[2]])["input_ids"][0]
    roles = token_roles(encoder, ids)
    assert roles[0] is Role.FIRST and roles[-1] is Role.SEPARATOR
    assert roles[-2] is Role.PUNCTUATION and roles[4] is Role.CONTENT  # a comma inside is no end
    assert roles.count(Role.CONTENT) == 7
    assert Role.PUNCTUATION not in token_roles(encoder, encoder.features(["a b"])["input_ids"][0])


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_shares_are_those_of_a_plain_loop(model: str, request: pytest.FixtureRequest) -> None:
    encoder = loaded(request.getfixturevalue(model))
    found = attention_sinks(encoder, TEXTS)
    layers = len(found.received)
    expected = np.zeros((len(TEXTS), layers, len(Role)))
    even = np.zeros((len(TEXTS), len(Role)))
    for number, text in enumerate(TEXTS):  # one by one, so that nothing is padded
        features = encoder.features([text])
        maps = encoder.attention(Tokens(features["input_ids"], features["attention_mask"]))[:, 0]
        roles = token_roles(encoder, features["input_ids"][0])
        for at, role in enumerate(roles):
            place = list(Role).index(role)
            even[number, place] += 1 / len(roles)
            for layer in range(layers):
                expected[number, layer, place] += float(maps[layer, :, :, at].mean())
    np.testing.assert_allclose(found.received, expected.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.tokens, even.mean(axis=0), atol=1e-6)
    torch.testing.assert_close(found.received.sum(dim=1), torch.ones(layers))


def test_a_line_per_role_and_its_even_share(tiny_bert: Path) -> None:
    found = attention_sinks(loaded(tiny_bert), TEXTS)
    (axes,) = sink_figure(found).axes
    drawn: Any = axes.lines
    assert len(drawn) == 2 * len(Role)
    np.testing.assert_allclose(drawn[2].get_ydata(), 100 * found.received[:, 1])
    assert drawn[3].get_linestyle() == ":" and drawn[3].get_ydata()[0] == pytest.approx(
        100 * float(found.tokens[1])
    )


def test_maps_of_a_sentence(tiny_bert: Path) -> None:
    found = sentence_attention(loaded(tiny_bert), "the cat sleeps .")
    assert found.tokens == ("[CLS]", "the", "cat", "sleeps", ".", "[SEP]")
    assert found.maps.shape == (3, 6, 6)
    torch.testing.assert_close(found.maps.sum(dim=2), torch.ones(3, 6))
    figure: Any = attention_map_figure(found)
    panels = figure.axes[:3]
    assert [axes.get_title() for axes in panels] == ["layer 1", "layer 2", "layer 3"]
    np.testing.assert_allclose(panels[1].images[0].get_array(), found.maps[1])
    left = panels[0].get_yticklabels()
    assert [label.get_text() for label in left] == list(found.tokens)
    assert {label.get_color() for label in left[-2:]} != {left[1].get_color()}  # marked
    assert not any(label.get_text() for label in panels[1].get_yticklabels())
    figure.canvas.draw()


def test_what_cannot_be_looked_at_says_so(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    with pytest.raises(TertiumError, match="at least one"):
        attention_sinks(encoder, [])
    with pytest.raises(TertiumError, match="no text"):
        sentence_attention(encoder, " ")
    with pytest.raises(TertiumError, match="two towers"):
        attention_sinks(join_towers(encoder, other_weights(encoder)), TEXTS)
