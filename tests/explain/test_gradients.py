from pathlib import Path

import pytest
import torch
from torch import Tensor

import tertium
from tertium.explain.gradients import Attributed, integrate_gradients
from tertium.explain.tokens import Table
from tertium.functional import cosine_pairs
from tertium.models import Encoder

pytest.importorskip("captum")


ALL = slice(None)


def error(found: Attributed) -> float:
    change = found.score - found.baseline
    return abs(float(found.values.sum()) - change) / abs(change)


def test_a_linear_score_is_explained_exactly() -> None:
    table = torch.nn.Embedding(10, 4)
    weight = torch.randn(4, generator=torch.Generator().manual_seed(0))

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        words = table(ids) @ weight * mask
        return words.sum(dim=1).reshape(-1, 2).sum(dim=1)

    ids, mask = torch.tensor([[1, 2, 0], [3, 4, 5]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    silent = torch.zeros_like(ids)
    found = integrate_gradients(forward, [Table(table, ALL)], ids, mask, baseline=silent, steps=4)
    expected = ((table.weight[ids] - table.weight[0]) @ weight * mask).detach()
    torch.testing.assert_close(found.values, expected, atol=1e-5, rtol=1e-4)
    assert error(found) < 1e-4


def test_it_adds_up_to_the_cosine(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    features = encoder.features(["the cat sleeps .", "a dog"])

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        rows = encoder.forward({"input_ids": ids, "attention_mask": mask}).embedding
        return cosine_pairs(rows[0::2], rows[1::2])

    ids, mask = features["input_ids"], features["attention_mask"]
    special = (ids == encoder.tokenizer.cls_token_id) | (ids == encoder.tokenizer.sep_token_id)
    baseline = torch.where(special | (mask == 0), ids, encoder.tokenizer.pad_token_id)
    tables = [Table(encoder.backbone.get_input_embeddings(), ALL)]
    found, again = (
        integrate_gradients(forward, tables, ids, mask, baseline=baseline, steps=64)
        for _ in range(2)
    )
    assert error(found) < 0.02
    assert found.score == pytest.approx(
        float(encoder.score([("the cat sleeps .", "a dog")])[0]), abs=1e-5
    )
    assert not found.values[special].any() and not found.values[mask == 0].any()
    torch.testing.assert_close(found.values, again.values, rtol=0, atol=0)
