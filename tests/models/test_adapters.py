from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.adapters import apply_adapter, extract_adapter


def nudged(model: nn.Module, *, skip: str = "embeddings", size: float = 0.01) -> nn.Module:
    """A copy whose weights have all moved a little, as training would do it."""
    copy = deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in copy.named_parameters():
            if skip not in name:
                parameter += size * torch.randn(parameter.shape, generator=generator)
    return copy


def test_full_rank_gives_the_weights_back_to_half_precision(tiny: Encoder) -> None:
    tuned = nudged(tiny.backbone)
    adapter = extract_adapter(tiny.backbone, tuned.state_dict(), rank=1000)
    assert all(tensor.dtype is torch.float16 for tensor in adapter.values())
    rebuilt = deepcopy(tiny.backbone)
    apply_adapter(rebuilt, adapter)
    for (name, expected), (_, found) in zip(
        tuned.named_parameters(), rebuilt.named_parameters(), strict=True
    ):
        assert_close(found, expected, atol=2e-4, rtol=0, msg=name)
    assert not any("embeddings" in name for name in adapter)


def test_low_rank_is_the_best_approximation() -> None:
    generator = torch.Generator().manual_seed(0)
    base, tuned = nn.Linear(12, 8), nn.Linear(12, 8)
    with torch.no_grad():
        tuned.weight.copy_(base.weight + torch.randn(8, 12, generator=generator))
    delta = (tuned.weight - base.weight).detach()
    spectrum = torch.linalg.svdvals(delta)
    errors = []
    for rank in (1, 3, 8):
        adapter = extract_adapter(base, tuned.state_dict(), rank=rank)
        assert adapter["weight.up"].shape == (8, rank)
        assert adapter["weight.down"].shape == (rank, 12)
        rebuilt = deepcopy(base)
        apply_adapter(rebuilt, adapter)
        error = (rebuilt.weight - tuned.weight).norm().item()
        assert error == pytest.approx(spectrum[rank:].norm().item(), abs=1e-2)  # Eckart & Young
        errors.append(error)
    assert errors == sorted(errors, reverse=True)


def test_nothing_changed_is_an_empty_adapter(bert: Encoder) -> None:
    assert extract_adapter(bert.backbone, bert.backbone.state_dict(), rank=4) == {}


def test_trained_embeddings_are_refused(bert: Encoder) -> None:
    tuned = nudged(bert.backbone, skip="encoder")
    with pytest.raises(TertiumError, match=r"embeddings.*encoder\.freeze"):
        extract_adapter(bert.backbone, tuned.state_dict(), rank=4)


def test_a_model_without_the_weight_is_refused(bert: Encoder) -> None:
    adapter = extract_adapter(bert.backbone, nudged(bert.backbone).state_dict(), rank=2)
    with pytest.raises(TertiumError, match="which this model does not have"):
        apply_adapter(nn.Linear(2, 2), adapter)


def test_what_an_adapter_says_is_extracted_again_unchanged(bert: Encoder) -> None:
    """Projecting twice is projecting once, up to half precision."""
    once, twice = deepcopy(bert.backbone), deepcopy(bert.backbone)
    adapter = extract_adapter(bert.backbone, nudged(bert.backbone).state_dict(), rank=2)
    apply_adapter(once, adapter)
    apply_adapter(twice, extract_adapter(bert.backbone, once.state_dict(), rank=2))
    for (name, first), (_, second) in zip(
        once.named_parameters(), twice.named_parameters(), strict=True
    ):
        assert_close(first, second, atol=1e-4, rtol=0, msg=name)
    again = deepcopy(bert.backbone)
    apply_adapter(again, adapter)
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, once.state_dict()[name])
