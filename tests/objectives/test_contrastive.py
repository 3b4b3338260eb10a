import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.functional import contrastive_tension, cosine_pairs, info_nce, nt_xent
from tertium.objectives import (
    OBJECTIVES,
    ContrastiveTension,
    InfoNCE,
    NTXent,
    Objective,
    PositivesOnly,
)
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


def test_they_are_registered() -> None:
    assert OBJECTIVES["info_nce"] is InfoNCE
    assert OBJECTIVES["nt_xent"] is NTXent
    assert OBJECTIVES["positives_only"] is PositivesOnly
    assert OBJECTIVES["contrastive_tension"] is ContrastiveTension


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


# the other contrastive objectives


def test_nt_xent_is_the_mean_over_both_views() -> None:
    a, p = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    objective = NTXent(temperature=0.1)
    expected = nt_xent(a, p, temperature=0.1)
    assert_close(objective.terms(views(a, p))["contrast"].value, expected)
    assert_close(objective(views(a, p)), {"contrast": expected.mean()})
    same = torch.ones(4, 3)
    assert objective(views(same, same))["contrast"].item() == pytest.approx(math.log(7))


def test_a_queue_is_a_list_of_further_negatives() -> None:
    generator = torch.Generator().manual_seed(0)
    a, p = torch.randn(2, 4, 6, generator=generator)
    queue = torch.randn(5, 6, generator=generator)
    for objective, contrast in ((InfoNCE(temperature=0.1), info_nce), (NTXent(), nt_xent)):
        with_queue = replace(views(a, p), queue=queue)
        expected = contrast(a, p, temperature=objective.temperature, queue=queue)
        assert_close(objective.terms(with_queue)["contrast"].value, expected)
        assert objective(with_queue)["contrast"] > objective(views(a, p))["contrast"]


def test_positives_only_does_not_look_at_other_sentences() -> None:
    a, p = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    objective = PositivesOnly(temperature=0.1)
    assert_close(objective(views(a, p)), {"attraction": (-cosine_pairs(a, p) / 0.1).mean()})
    whole = objective.terms(views(a, p))["attraction"].value
    assert_close(objective.terms(views(a[:1], p[:1]))["attraction"].value, whole[:1])
    assert objective(views(a, 2 * a))["attraction"].item() == pytest.approx(-10)


@pytest.mark.parametrize("negatives", [1, 3])
def test_tension_cuts_the_batch_into_groups(negatives: int) -> None:
    generator = torch.Generator().manual_seed(0)
    stride = negatives + 1
    anchors = torch.randn(2, 5, generator=generator)
    candidates = torch.randn(2 * stride, 5, generator=generator)
    objective = ContrastiveTension(negatives=negatives)
    assert objective.anchor_stride == stride and objective.two_encoders
    found = objective.terms(views(anchors, candidates))["tension"].value
    expected = [
        contrastive_tension(anchors[at : at + 1], candidates[None, at * stride : (at + 1) * stride])
        for at in range(2)
    ]
    assert_close(found, torch.cat(expected).flatten())


def test_only_those_that_need_other_sentences_exchange_them() -> None:
    exchanging = {name for name, kind in OBJECTIVES.items() if kind.in_batch}
    contrasting = {"info_nce", "multiple_negatives", "nt_xent", "tower_nce", "icnce"}
    ranking = {"angle", "cosent"}  # every pair is compared with every other
    assert exchanging == contrasting | ranking
    assert {name for name, kind in OBJECTIVES.items() if kind.two_encoders} == {
        "contrastive_tension"
    }


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("kind", [InfoNCE, NTXent, PositivesOnly])
def test_a_temperature_is_positive(kind: type[Objective], temperature: float) -> None:
    with pytest.raises(TertiumError, match="temperature must be positive"):
        kind(temperature=temperature)  # type: ignore[call-arg]


def test_tension_needs_negatives() -> None:
    with pytest.raises(TertiumError, match="at least 1, got 0"):
        ContrastiveTension(negatives=0)


@pytest.mark.parametrize("kind", ["info_nce", "nt_xent", "positives_only"])
def test_gradients_of_a_collapsed_batch_are_finite(kind: str) -> None:
    for filler in (0.0, 1.0):
        a, p = (torch.full((4, 3), filler, requires_grad=True) for _ in range(2))
        sum(OBJECTIVES[kind]()(views(a, p)).values()).backward()  # type: ignore[union-attr]
        for side in (a, p):
            assert side.grad is not None and side.grad.isfinite().all()
