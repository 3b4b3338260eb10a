from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import tertium
from tertium.models import Encoder
from tertium.training.passes import encode_tokens
from tertium.types import Encoded, Tokens

TEXTS = ["a", "the cat sleeps , the dog barks .", "a b c", "x", "the dog barks", "e f g h i j k l"]


@pytest.fixture(params=["bert", "roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    loaded = tertium.load(request.getfixturevalue(f"tiny_{request.param}"), engine="torch")
    assert isinstance(loaded, Encoder)
    return loaded


@pytest.fixture
def tokens(encoder: Encoder) -> Tokens:
    features = encoder.features(TEXTS)
    return Tokens(features["input_ids"], features["attention_mask"])


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How wide each pass was."""
    seen: list[int] = []
    original = Encoder.forward

    def spy(self: Encoder, features: dict[str, Tensor], **options: Any) -> Encoded:
        seen.append(features["attention_mask"].shape[1])
        return original(self, features, **options)

    monkeypatch.setattr(Encoder, "forward", spy)
    return seen


@pytest.mark.parametrize("layers", [(), (1,), (0, 2)])
def test_groups_are_one_pass_row_by_row(
    layers: tuple[int, ...], encoder: Encoder, tokens: Tokens, widths: list[int]
) -> None:
    whole = encode_tokens(encoder, tokens, layers=layers)
    assert len(widths) == 1
    grouped = encode_tokens(encoder, tokens, budget=12, layers=layers)
    assert len(set(widths[1:])) > 2 and max(widths) == tokens.ids.shape[1]
    real = tokens.mask.bool()
    assert_close(grouped.embedding, whole.embedding, atol=1e-5, rtol=1e-5)
    assert_close(grouped.tokens[real], whole.tokens[real], atol=1e-5, rtol=1e-5)
    assert torch.equal(grouped.mask, whole.mask) and grouped.layers == whole.layers == layers
    if not layers:
        assert grouped.attention is None and whole.attention is None
        return
    assert grouped.attention is not None and whole.attention is not None
    assert grouped.attention.shape == whole.attention.shape
    square = (real[:, :, None] & real[:, None, :])[None, :, None].expand_as(whole.attention)
    assert_close(grouped.attention[square], whole.attention[square], atol=1e-5, rtol=1e-5)
    assert not grouped.attention[~square].any()
    assert_close(grouped.attention.sum(-1)[..., 0], torch.ones(grouped.attention.shape[:3]))


def test_gradients_flow_through_every_group(encoder: Encoder, tokens: Tokens) -> None:
    found = encode_tokens(encoder, tokens, budget=12, layers=(2,))
    assert found.attention is not None
    found.attention.square().sum().backward()
    queries = encoder.backbone.encoder.layer[2].attention.self.query.weight
    whole = encode_tokens(encoder, tokens, layers=(2,))
    real = tokens.mask[None, :, None, :, None]
    assert whole.attention is not None and queries.grad is not None and queries.grad.any()
    (expected,) = torch.autograd.grad((whole.attention * real).square().sum(), queries)
    assert_close(queries.grad, expected, atol=1e-4, rtol=1e-3)


def test_texts_of_one_length_are_one_pass(encoder: Encoder, widths: list[int]) -> None:
    features = encoder.features(["a b", "c d", "e f"])
    batch = Tokens(features["input_ids"], features["attention_mask"])
    encode_tokens(encoder, batch, budget=1024)
    assert widths == [4]
