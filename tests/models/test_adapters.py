from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.adapters import (
    ADAPTER,
    apply_adapter,
    change_weights,
    extract_adapter,
    load_adapter,
    write_adapter,
)
from tertium.models.checkpoints import read_arrays


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
        if rank < 8:
            assert adapter["weight.up"].shape == (8, rank)
            assert adapter["weight.down"].shape == (rank, 12)
        else:  # two factors would be larger than the matrix
            assert adapter["weight.delta"].shape == (8, 12)
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


def test_weights_in_numpy_change_as_those_in_torch(bert: Encoder, tmp_path: Path) -> None:
    adapter = extract_adapter(bert.backbone, nudged(bert.backbone).state_dict(), rank=2)
    write_adapter(adapter, tmp_path)
    before = {name: x.numpy().copy() for name, x in bert.backbone.state_dict().items()}
    found = change_weights(before, tmp_path / ADAPTER)
    changed = deepcopy(bert.backbone)
    load_adapter(changed, tmp_path / ADAPTER)
    for name, expected in changed.state_dict().items():
        np.testing.assert_array_equal(found[name], expected.numpy())
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(before[name], bert.backbone.state_dict()[name].numpy())


@pytest.mark.parametrize(
    ("adapter", "reason"),
    [
        ({"x.delta": np.zeros(3)}, "changes x, which this model does not have"),
        ({"w.delta": np.zeros((3, 2))}, "w.delta does not fit w of this model"),
        ({"w.up": np.zeros((2, 1))}, "w.up does not fit w"),
        ({"w.up": np.zeros((2, 1)), "w.down": np.zeros((2, 3))}, "w.up does not fit w"),
        ({"w.down": np.zeros((2, 3))}, "w.down does not fit w"),
        ({"w": np.zeros((2, 3))}, "which this model does not have"),
    ],
)
def test_an_adapter_that_does_not_fit(
    adapter: dict[str, np.ndarray], reason: str, tmp_path: Path
) -> None:
    write_adapter({name: x.astype(np.float16) for name, x in adapter.items()}, tmp_path)
    weights = {"w": np.ones((2, 3), np.float32)}
    with pytest.raises(TertiumError, match=f"{ADAPTER}: .*{reason}"):
        change_weights(weights, tmp_path / ADAPTER)


def test_half_and_bfloat16_are_read_without_torch(tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0, 3.25e10], [0.0, 1e-8, -0.1]])
    tensors = {str(kind): values.to(kind) for kind in (torch.bfloat16, torch.float32)}
    save_file(tensors, tmp_path / "x.safetensors")
    found = read_arrays(tmp_path / "x.safetensors")
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(found[name], tensor.float().numpy())
    save_file({"x": torch.zeros(2, dtype=torch.float8_e4m3fn)}, tmp_path / "y.safetensors")
    with pytest.raises(TertiumError, match=r"y.safetensors cannot be read \(F8_E4M3 is not a type"):
        read_arrays(tmp_path / "y.safetensors")
