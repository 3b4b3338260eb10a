from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModel, DistilBertConfig, DistilBertModel, PreTrainedModel

from tertium.errors import TertiumError
from tertium.models.twin import cross_branches, cross_layers
from tertium.types import Branch
from tests.fakes import tiny_model

IDS = torch.tensor([[2, 7, 9, 12, 3], [2, 8, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


@pytest.fixture
def towers(tiny_bert: Path) -> tuple[PreTrainedModel, PreTrainedModel]:
    first, second = AutoModel.from_pretrained(tiny_bert), AutoModel.from_pretrained(tiny_bert)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return first.eval(), second.eval()


def states(model: PreTrainedModel, ids: Tensor = IDS, mask: Tensor = MASK) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = model(
        ids, attention_mask=mask, output_hidden_states=True
    ).hidden_states
    return found


def test_crossings_are_spread_evenly() -> None:
    assert list(cross_layers(12, 6)) == [2, 4, 6, 8, 10, 12]
    assert list(cross_layers(6, 1)) == [6]
    assert list(cross_layers(6, 0)) == []
    with pytest.raises(TertiumError, match=r"4 cross-attention layers do not fit 6 layers; .* 6"):
        cross_layers(6, 4)


@pytest.mark.parametrize("branch", ["side", "stream"])
@pytest.mark.parametrize("layers", [[3], [1, 2, 3], [2]])
def test_with_identical_towers_a_branch_is_the_main_stream(
    branch: Branch, layers: list[int], towers: tuple[PreTrainedModel, PreTrainedModel]
) -> None:
    first, _ = towers
    main = states(first)
    branches = cross_branches(first, first, (main, main), MASK, layers=layers, branch=branch)
    for found in branches:
        assert_close(found[MASK.bool()], main[layers[-1]][MASK.bool()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("branch", ["side", "stream"])
def test_the_first_token_alone_is_that_of_all(
    branch: Branch, towers: tuple[PreTrainedModel, PreTrainedModel]
) -> None:
    main = states(towers[0]), states(towers[1])
    whole = cross_branches(*towers, main, MASK, layers=[1, 3], branch=branch)
    alone = cross_branches(*towers, main, MASK, layers=[1, 3], branch=branch, cls_only=True)
    for every, one in zip(whole, alone, strict=True):
        assert one.shape[1] == 1
        assert_close(one[:, 0], every[:, 0], atol=1e-6, rtol=1e-5)


def test_between_crossings_only_the_stream_remembers(
    towers: tuple[PreTrainedModel, PreTrainedModel],
) -> None:
    main = states(towers[0]), states(towers[1])

    def found(layers: list[int], branch: Branch) -> Tensor:
        return cross_branches(*towers, main, MASK, layers=layers, branch=branch)[0]

    assert_close(found([1, 2, 3], "side"), found([3], "side"))
    assert (found([1, 2, 3], "stream") - found([3], "stream")).abs().max() > 1e-3
    assert_close(found([3], "stream"), found([3], "side"))


def test_padding_changes_nothing(towers: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    together = cross_branches(
        *towers, (states(towers[0]), states(towers[1])), MASK, layers=[1, 3], branch="stream"
    )
    ids, mask = IDS[1:, :3], MASK[1:, :3]
    main = states(towers[0], ids, mask), states(towers[1], ids, mask)
    alone = cross_branches(*towers, main, mask, layers=[1, 3], branch="stream")
    for whole, short in zip(together, alone, strict=True):
        assert_close(whole[1:, :3], short, atol=1e-5, rtol=1e-5)


def test_towers_of_other_shapes_and_kinds_are_refused(
    towers: tuple[PreTrainedModel, PreTrainedModel], tmp_path: Path
) -> None:
    deep = AutoModel.from_pretrained(tiny_model(tmp_path / "deep", layers=2))
    with pytest.raises(TertiumError, match="3 and 2 layers"):
        cross_branches(towers[0], deep, ((), ()), MASK, layers=[1])
    config = DistilBertConfig(vocab_size=20, dim=8, n_layers=1, n_heads=2, hidden_dim=8)
    other = DistilBertModel(config)
    with pytest.raises(TertiumError, match="DistilBertModel has no layers like BERT's"):
        cross_branches(other, other, ((), ()), MASK, layers=[1])
