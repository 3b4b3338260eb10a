import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tertium.functional.modulus import cls_energy, modulus_constraint, tensor_modulus


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_the_ratio_is_between_0_and_1_and_knows_no_unit(seed: int, scale: float) -> None:
    first, second = drawn(seed, 4, 3), drawn(seed + 1, 4, 3)
    found = tensor_modulus(first, second)
    assert ((found > 0) & (found <= 1 + 1e-6)).all()
    assert_close(tensor_modulus(scale * first, scale * second), found, atol=1e-5, rtol=1e-4)
    assert_close(tensor_modulus(second, first), found)


def test_equal_vectors_have_0_and_opposite_ones_1() -> None:
    vector = drawn(0, 4, 3)
    assert_close(tensor_modulus(vector, vector), torch.zeros(4))
    assert_close(tensor_modulus(vector, -vector), torch.ones(4))
    assert_close(tensor_modulus(torch.zeros(1, 3), torch.zeros(1, 3)), torch.zeros(1))


def test_equal_vectors_have_a_finite_gradient() -> None:
    vector = drawn(0, 4, 3).requires_grad_()
    other = vector.detach().clone()
    modulus_constraint(vector, other, vector, other).sum().backward()
    assert vector.grad is not None and vector.grad.isfinite().all()


def test_a_low_cosine_gives_no_gradient_to_the_states() -> None:
    pooled, other = drawn(0, 2, 3).requires_grad_(), drawn(1, 2, 3)
    cls = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    against = torch.tensor([[-1.0, 0.5, 0.0], [0.0, 1.0, 0.0]])
    found = modulus_constraint(pooled, other, cls, against)
    assert_close(found, -tensor_modulus(pooled, other) * torch.tensor(1e-4).log())
    found.sum().backward()
    assert cls.grad is not None and (cls.grad == 0).all()
    assert pooled.grad is not None and (pooled.grad != 0).any()


def test_cls_energy_is_the_norm_of_one_row_against_the_others() -> None:
    context = drawn(0, 2, 4, 3)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    found = cls_energy(context, mask)
    expected = [
        context[0, 0].norm() / context[0, 1:].norm(),
        context[1, 0].norm() / context[1, 1:2].norm(),
    ]
    assert_close(found, torch.stack(expected))
