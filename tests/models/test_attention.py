from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel, MPNetConfig, MPNetModel

import tertium
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.attention import capture_attention
from tertium.types import Tokens

TEXTS = ["the cat sleeps .", "a dog", "x y z , the cat sleeps . a dog barks"]


@pytest.mark.parametrize("architecture", ["tiny_bert", "tiny_roberta"])
@torch.no_grad()
def test_equals_the_eager_weights(architecture: str, request: pytest.FixtureRequest) -> None:
    source: Path = request.getfixturevalue(architecture)
    encoder = tertium.load(source)
    features = encoder.features(TEXTS)
    eager = AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    expected = eager(**features, output_attentions=True).attentions

    out = encoder.forward(features, attention_layers=[2, 0])
    assert out.layers == (2, 0)
    assert out.attention is not None and out.attention.shape[:2] == (2, 3)
    real = features["attention_mask"].bool()
    for captured, layer in zip(out.attention, out.layers, strict=True):
        # Rows of padded queries mean nothing, and implementations differ on them.
        rows = real[:, None, :].expand(captured.shape[:3])
        assert_close(captured[rows], expected[layer][rows])


@torch.no_grad()
def test_mpnet_has_an_attention_of_its_own() -> None:
    shape = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    backbone = MPNetModel(MPNetConfig(vocab_size=60, intermediate_size=32, **shape)).eval()
    features = {"input_ids": torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])}
    features["attention_mask"] = (features["input_ids"] != 1).long()
    expected = backbone(**features, output_attentions=True).attentions
    with capture_attention(backbone, [2, 0]) as captured:
        backbone(**features)
    assert sorted(captured) == [0, 2]
    for layer, found in captured.items():
        assert_close(found, expected[layer])
    captured.clear()
    backbone(**features)
    assert not captured  # nothing is recorded outside the block


@torch.no_grad()
def test_rows_sum_to_one_and_padding_gets_nothing(tiny: Encoder) -> None:
    features = tiny.features(TEXTS)
    attention = tiny.forward(features, attention_layers=range(3)).attention
    assert attention is not None
    padded = features["attention_mask"] == 0
    assert padded.any()
    keys = padded[None, :, None, None, :].expand_as(attention)
    assert (attention[keys] == 0).all()
    assert_close(attention.sum(-1), torch.ones(attention.shape[:-1]))


@torch.no_grad()
def test_output_is_that_of_the_fused_kernel(tiny: Encoder) -> None:
    features = tiny.features(TEXTS)
    plain = tiny.forward(features)
    seen = tiny.forward(features, attention_layers=[1])
    assert plain.attention is None and plain.layers == ()
    real = features["attention_mask"].bool()
    assert_close(seen.tokens[real], plain.tokens[real])
    assert_close(seen.embedding, plain.embedding)


@torch.no_grad()
def test_only_wanted_layers_are_kept_and_negative_ones_count_from_the_end(bert: Encoder) -> None:
    features = bert.features(TEXTS)
    with capture_attention(bert.backbone, [-1]) as captured:
        bert.forward(features)
    assert set(captured) == {2}
    last = bert.forward(features, attention_layers=[-1])
    assert last.layers == (2,)
    assert last.attention is not None
    assert_close(last.attention[0], captured[2])


def test_the_implementation_is_restored(bert: Encoder) -> None:
    before = bert.backbone.config._attn_implementation
    with capture_attention(bert.backbone, [0]):
        assert bert.backbone.config._attn_implementation != before
    assert bert.backbone.config._attn_implementation == before
    with pytest.raises(RuntimeError, match="mine"), capture_attention(bert.backbone, [0]):
        raise RuntimeError("mine")
    assert bert.backbone.config._attn_implementation == before


def test_nothing_is_recorded_after_the_block(bert: Encoder) -> None:
    with capture_attention(bert.backbone, [0]) as captured:
        pass
    bert.encode(TEXTS)
    assert captured == {}


@torch.no_grad()
def test_weights_are_those_before_dropout(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert)
    # Only attention dropout: with it the inputs of layer 0 stay the same.
    for module in encoder.backbone.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for layer in encoder.backbone.encoder.layer:
        layer.attention.self.dropout.p = 0.5
    features = encoder.features(TEXTS)
    evaluated = encoder.forward(features, attention_layers=[0])
    encoder.model.train()
    trained = encoder.forward(features, attention_layers=[0])
    assert trained.attention is not None and evaluated.attention is not None
    assert_close(trained.attention, evaluated.attention)
    assert (trained.embedding - evaluated.embedding).abs().max() > 1e-3  # dropout did happen


def test_gradients_flow_through_the_weights(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert)
    attention = encoder.forward(encoder.features(TEXTS), attention_layers=[1]).attention
    assert attention is not None
    attention.square().sum().backward()
    queries = [layer.attention.self.query.weight.grad for layer in encoder.backbone.encoder.layer]
    assert queries[0] is not None and queries[0].abs().max() > 0
    assert queries[1] is not None and queries[1].abs().max() > 0
    assert queries[2] is None  # the layer above had no part in it


@pytest.mark.parametrize("layer", [3, 5, -4])
def test_a_layer_that_is_not_there(bert: Encoder, layer: int) -> None:
    with pytest.raises(TertiumError, match=rf"{layer}.*3 layers 0\.\.2"):
        bert.forward(bert.features(TEXTS), attention_layers=[layer])
    with pytest.raises(TertiumError, match="3 layers"):
        bert.encode(TEXTS)  # still usable
        with capture_attention(bert.backbone, [0, layer]):
            pass
    assert bert.backbone.config._attn_implementation == "sdpa"


# the maps alone


@torch.no_grad()
def test_maps_alone_are_those_of_a_whole_pass(tiny: Encoder) -> None:
    features = tiny.features(TEXTS)
    tokens = Tokens(features["input_ids"], features["attention_mask"])
    expected = tiny.forward(features, attention_layers=range(3)).attention
    assert expected is not None
    assert_close(tiny.attention(tokens, whole=True), expected)
    padded = tokens.mask[None, :, None, :, None] == 0  # queries whose rows mean nothing
    assert padded.any()
    found = tiny.attention(tokens)
    assert_close(found.masked_fill(padded, 0.0), expected.masked_fill(padded, 0.0))


@torch.no_grad()
def test_maps_of_many_groups(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    features = tiny.features(TEXTS)
    tokens = Tokens(features["input_ids"], features["attention_mask"])
    padded = tokens.mask[None, :, None, :, None] == 0
    together = tiny.attention(tokens)
    monkeypatch.setattr(tiny, "_default_budget", lambda: 1)  # each text on its own
    assert_close(tiny.attention(tokens), together.masked_fill(padded, 0.0))


def test_a_pass_after_the_maps_is_whole_again(tiny: Encoder) -> None:
    before = tiny.encode(TEXTS)
    features = tiny.features(TEXTS)
    tiny.attention(Tokens(features["input_ids"], features["attention_mask"]))
    assert (tiny.encode(TEXTS) == before).all()
    out = tiny.forward(features, attention_layers=[2])
    assert out.embedding.requires_grad and out.attention is not None
