from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, DistilBertConfig

import tertium
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.surgery import language_head
from tertium.types import Pooling

TEXTS = ["the cat sleeps .", "a dog", "x y z , the cat"]


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def source(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture
def with_head(source: Path, tmp_path: Path) -> Path:
    """A checkpoint of the same architecture that has a language-model head."""
    torch.manual_seed(7)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(source))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path / "masked")
    AutoTokenizer.from_pretrained(source).save_pretrained(tmp_path / "masked")
    return tmp_path / "masked"


def weights(head: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in head.state_dict().items()}


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@torch.no_grad()
def test_the_checkpoints_own_head_gives_the_models_scores(with_head: Path) -> None:
    encoder = tertium.load(with_head)
    features = encoder.features(TEXTS)
    model = AutoModelForMaskedLM.from_pretrained(with_head).eval()
    expected = model(**features).logits
    real = features["attention_mask"].bool()
    states = encoder.forward(features).tokens[real]
    for seed in (0, 1):
        assert_close(language_head(encoder, seed=seed)(states), expected[real])


def test_a_fresh_head_depends_on_the_seed_alone(source: Path) -> None:
    encoder = tertium.load(source)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = weights(language_head(encoder, seed=3))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(weights(language_head(encoder, seed=3)), one)
    assert not same(weights(language_head(encoder, seed=4)), one)
    encoder.source = None  # an encoder that came from no folder
    assert same(weights(language_head(encoder, seed=3)), one)


def test_it_is_tied_to_the_embeddings_and_does_not_hold_them(source: Path) -> None:
    encoder = tertium.load(source)
    head = language_head(encoder, seed=0)
    table = encoder.backbone.get_input_embeddings().weight
    assert all(value.shape != table.shape for value in head.state_dict().values())
    assert all(parameter is not table for parameter in head.parameters())
    states = torch.randn(2, encoder.dimension)
    before = head(states)
    assert before.shape == (2, len(encoder.tokenizer))
    before[:, 9].sum().backward()
    assert table.grad is not None and table.grad[9].any() and not table.grad[8].any()
    with torch.no_grad():
        table[9] *= -1
    after = head(states)
    others = [at for at in range(before.shape[1]) if at != 9]
    assert_close(after[:, others], before[:, others])
    assert not torch.isclose(after[:, 9], before[:, 9]).any()


def test_an_encoder_that_learned_keeps_the_checkpoints_head(with_head: Path) -> None:
    encoder = tertium.load(with_head)
    with torch.no_grad():
        encoder.backbone.get_input_embeddings().weight.zero_()
    head = language_head(encoder, seed=0)
    assert_close(head(torch.randn(2, encoder.dimension)), head.bias.expand(2, -1))


def test_an_architecture_without_such_a_head(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tertium.load(tiny_bert)
    encoder.source = None
    other = DistilBertConfig(vocab_size=50, dim=8, hidden_dim=8, n_layers=1, n_heads=2)
    monkeypatch.setattr(encoder.backbone, "config", other)
    with pytest.raises(TertiumError, match="BERT- and RoBERTa-like"):
        language_head(encoder, seed=0)


# copies


def test_a_copy_is_the_same_and_independent(source: Path) -> None:
    encoder = tertium.load(source, max_length=16).with_pooling(Pooling.CLS)
    twin = encoder.copy()
    assert isinstance(twin, Encoder)
    assert (twin.name, twin.pooling, twin.source) == (encoder.name, "cls", encoder.source)
    assert twin.max_length == 16 and twin.device == encoder.device
    before = encoder.encode(TEXTS)
    assert (twin.encode(TEXTS) == before).all()
    with torch.no_grad():
        for parameter in twin.model.parameters():
            parameter.mul_(0.5)
    assert (encoder.encode(TEXTS) == before).all()
    assert not (twin.encode(TEXTS) == before).all()
