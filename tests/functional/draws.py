"""Random float64 inputs for the formulas."""

import torch
from hypothesis import strategies as st
from torch import Tensor

SEEDS = st.integers(0, 2**31)
TEMPERATURES = st.floats(0.05, 2.0)


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def leaf(seed: int, *shape: int) -> Tensor:
    return normal(seed, *shape).requires_grad_()
