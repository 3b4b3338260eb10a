import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.heads import HEADS, CosineHead, SiameseHead
from tests.functional.draws import SEEDS, normal

FEATURES = [
    list(chosen) for k in (1, 2, 3) for chosen in itertools.combinations(["u", "v", "|u-v|"], k)
]


@given(
    n=st.integers(1, 5),
    d=st.integers(1, 6),
    k=st.integers(1, 4),
    seed=SEEDS,
    features=st.sampled_from(FEATURES),
)
def test_the_siamese_head_is_a_loop_over_features(
    n: int, d: int, k: int, seed: int, features: list[str]
) -> None:
    u, v = normal(seed, 2, n, d)
    head = SiameseHead(dimension=d, features=tuple(features), outputs=k, seed=seed).double()
    scores = head(u, v)
    assert scores.shape == (n, k)
    for i in range(n):
        parts = {"u": u[i], "v": v[i], "|u-v|": (u[i] - v[i]).abs()}
        inputs = [float(x) for name in features for x in parts[name]]
        for j in range(k):
            weights = head.dense.weight[j].tolist()
            expected = sum(w * x for w, x in zip(weights, inputs, strict=True))
            assert_close(scores[i, j].item(), expected + head.dense.bias[j].item())


def test_differences_alone_are_symmetric_and_all_features_are_not() -> None:
    u, v = normal(0, 2, 3, 4)
    difference = SiameseHead(dimension=4, features=("|u-v|",)).double()
    assert_close(difference(u, v), difference(v, u))
    both = SiameseHead(dimension=4).double()
    assert not torch.allclose(both(u, v), both(v, u))


def test_fresh_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = SiameseHead(dimension=4, seed=5)
    torch.manual_seed(2)
    same, other = SiameseHead(dimension=4, seed=5), SiameseHead(dimension=4, seed=6)
    assert torch.equal(one.dense.weight, same.dense.weight)
    assert not torch.equal(one.dense.weight, other.dense.weight)
    assert not one.dense.bias.any()


@given(n=st.integers(1, 5), d=st.integers(2, 6), seed=SEEDS)
def test_the_cosine_head_scales_the_cosine(n: int, d: int, seed: int) -> None:
    u, v = normal(seed, 2, n, d)
    head = CosineHead(low=1.0, high=5.0).double()
    expected = [4.0 * cosine_similarity(u[i], v[i], dim=0).item() + 1.0 for i in range(n)]
    assert_close(head(u, v)[:, 0].tolist(), expected)
    assert_close(head(3 * u, v), head(v, u))


def test_the_cosine_head_starts_on_the_label_scale_and_learns() -> None:
    u = torch.eye(2)
    head = CosineHead(low=0.0, high=5.0)
    assert_close(head(u, u).squeeze(1), torch.tensor([5.0, 5.0]))
    assert_close(head(u, u.flip(0)).squeeze(1), torch.tensor([0.0, 0.0]))
    head(u, u).sum().backward()
    assert_close(head.slope.grad, torch.tensor(2.0))
    assert_close(head.offset.grad, torch.tensor(2.0))


@pytest.mark.parametrize("features", [(), ("u", "w"), ("u*v",)])
def test_unknown_features_are_refused(features: tuple[str, ...]) -> None:
    with pytest.raises(TertiumError, match="features must be among u, v"):
        SiameseHead(dimension=4, features=features)


@pytest.mark.parametrize(
    "head",
    [
        SiameseHead(dimension=4, features=("u", "|u-v|"), outputs=3, seed=9),
        SiameseHead(dimension=4),
        CosineHead(low=1.0, high=5.0),
    ],
)
def test_a_head_comes_back_from_its_settings_and_weights(head: SiameseHead | CosineHead) -> None:
    settings = head.config()
    again = HEADS[settings.pop("kind")](dimension=4, **settings)
    again.load_state_dict(head.state_dict())
    u, v = torch.randn(2, 5, 4)
    assert torch.equal(head(u, v), again(u, v))
