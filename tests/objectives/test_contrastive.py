import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tertium.functional import info_nce
from tertium.objectives import OBJECTIVES, InfoNCE
from tertium.objectives.base import NonFiniteLossError, reduce_terms
from tertium.types import Encoded, Term, ViewPair


def encoded(embedding: Tensor) -> Encoded:
    n = len(embedding)
    return Encoded(embedding, tokens=embedding[:, None], mask=torch.ones(n, 1, dtype=torch.long))


def views(*embeddings: Tensor) -> ViewPair:
    return ViewPair(*(encoded(embedding) for embedding in embeddings))


def test_known_value() -> None:
    # Orthogonal anchors, each equal to its positive: e^2 against e^2 + 1.
    loss = InfoNCE(temperature=0.5)(views(torch.eye(2), torch.eye(2)))
    assert loss["contrast"].item() == pytest.approx(math.log(1 + math.exp(-2)))


def test_a_collapsed_batch_costs_the_logarithm_of_its_size() -> None:
    same = torch.ones(8, 4)
    assert InfoNCE()(views(same, same))["contrast"].item() == pytest.approx(math.log(8))


def test_hard_negatives_and_their_weight() -> None:
    a, p, h = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    objective = InfoNCE(temperature=0.1, negative_weight=0.7)
    expected = info_nce(a, p, temperature=0.1, negatives=h, negative_weight=0.7)
    assert_close(objective.terms(views(a, p, h))["contrast"].value, expected)
    assert_close(objective(views(a, p, h))["contrast"], expected.mean())
    without = InfoNCE(temperature=0.1)(views(a, p, h))["contrast"]
    assert objective(views(a, p, h))["contrast"] > without > objective(views(a, p))["contrast"]


def test_terms_are_unreduced_and_gradients_flow_to_both_views() -> None:
    a, p = (torch.randn(5, 3, requires_grad=True) for _ in range(2))
    terms = InfoNCE().terms(views(a, p))
    assert terms.keys() == {"contrast"}
    assert terms["contrast"].value.shape == (5,)
    reduce_terms(terms)["contrast"].backward()
    assert a.grad is not None and a.grad.any()
    assert p.grad is not None and p.grad.any()


def test_it_is_registered() -> None:
    assert OBJECTIVES["info_nce"] is InfoNCE


def test_terms_are_weighted_means() -> None:
    terms = {"one": Term(torch.tensor([1.0, 3.0])), "two": Term(torch.tensor([4.0]), weight=0.5)}
    assert {name: value.item() for name, value in reduce_terms(terms).items()} == {
        "one": 2.0,
        "two": 2.0,
    }


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_term_that_is_not_finite_raises_by_name(bad: float) -> None:
    terms = {"fine": Term(torch.ones(2)), "broken": Term(torch.tensor([1.0, bad]))}
    with pytest.raises(NonFiniteLossError, match="'broken'"):
        reduce_terms(terms)
    embedding = torch.full((2, 3), bad)
    with pytest.raises(NonFiniteLossError, match="'contrast'"):
        InfoNCE()(views(embedding, embedding))
