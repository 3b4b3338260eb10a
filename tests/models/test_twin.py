from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from tertium.errors import TertiumError
from tertium.models.twin import twin_of
from tests.fakes import tiny_model

TEXTS = ["the cat sleeps .", "a b"]


def towers(folder: Path) -> tuple[PreTrainedModel, PreTrainedModel]:
    """A tiny model, and the same with other weights."""
    first, second = AutoModel.from_pretrained(folder), AutoModel.from_pretrained(folder)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return first.eval(), second.eval()


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_roberta"])
def test_a_saved_twin_is_a_plain_sentence_transformer(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(name)
    first, second = towers(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    twin_of(first, second).save_pretrained(tmp_path / "twin")
    tokenizer.save_pretrained(tmp_path / "twin")
    transformer = Transformer(str(tmp_path / "twin"))
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(tmp_path / "st"))
    found = SentenceTransformer(str(tmp_path / "st"), device="cpu").encode(
        TEXTS, convert_to_tensor=True
    )
    features = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = [tower(**features).last_hidden_state[:, 0] for tower in (first, second)]
    torch.testing.assert_close(found, states[0] + states[1])


def test_towers_of_another_shape_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    other = AutoModel.from_pretrained(tiny_model(tmp_path / "deep", layers=2))
    with pytest.raises(TertiumError, match="num_hidden_layers: 3 and 2"):
        twin_of(AutoModel.from_pretrained(tiny_bert), other)
