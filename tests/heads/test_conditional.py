from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.functional.reallocation import PADDING
from tertium.heads import CONDITIONAL_HEADS, ModelShape
from tertium.heads.cross import Regressor, SelfAugmentation
from tertium.types import Encoded

SHAPE = ModelShape(dimension=8, embedding=8, heads=2, depth=3)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, PADDING], [0, 0, 1, 1, PADDING, PADDING]])
SETTINGS: list[dict[str, Any]] = [
    {"kind": "cross"},
    {"kind": "cross", "regressor": "flatten", "length": 6},
    {"kind": "seaver", "alpha": "learned", "temperature": "learned", "layers": "mix"},
    {"kind": "seaver", "gradient": "states_and_weights", "regressor": "cls"},
    {"kind": "rand_aug"},
    {"kind": "bi"},
    {"kind": "bi", "pooling": "condition", "subtract": "learned", "scale": "learned"},
    {"kind": "bi", "projection": "hyper", "rank": 3, "subtract": 0.5},
    {"kind": "bi", "pooling": "sentence", "subtract": 0.5},
    {"kind": "bi", "pooling": "condition_tokens"},
    {"kind": "tri"},
    {"kind": "tri", "combine": "concat"},
]


def built(config: dict[str, Any], seed: int = 0) -> Any:
    settings = dict(config)
    return CONDITIONAL_HEADS[settings.pop("kind")](SHAPE, seed=seed, **settings)


def side(seed: int, layers: int = 3) -> Encoded:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(layers, 2, 2, 6, 6, generator=draw)
    logits = logits.masked_fill((SEGMENTS == PADDING)[:, None, None], -torch.inf)
    return Encoded(
        embedding=torch.randn(2, 8, generator=draw),
        tokens=torch.randn(2, 6, 8, generator=draw),
        mask=(SEGMENTS != PADDING).long(),
        attention=logits.softmax(dim=-1),
        layers=tuple(range(layers)),
        segments=SEGMENTS,
    )


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_every_head_scores_and_comes_back_from_its_config(config: dict[str, Any]) -> None:
    head = built(config, seed=5).eval()
    sides = [side(at) for at, _ in enumerate(head.layout.sequences)]
    found = head(sides)
    assert found.score.shape == (2,)
    assert found.score.isfinite().all()
    assert (found.cosine is None) == (config["kind"] not in ("bi", "tri"))
    again = built(head.config()).eval()
    again.load_state_dict(head.state_dict())
    assert_close(again(sides).score, found.score)
    same = built(config, seed=5).state_dict()
    assert all(torch.equal(tensor, same[name]) for name, tensor in head.state_dict().items())


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_a_classifier_is_the_sigmoid_of_two_maps_of_the_first_token(name: str) -> None:
    head = built({"kind": "classifier", "dense_activation": name}, seed=5).eval()
    one = side(0)
    state = getattr(torch.nn.functional, name)(head.dense(one.tokens[:, 0]))
    assert_close(head([one]).score, torch.sigmoid(head.out(state)).squeeze(1))
    assert head.layout.as_pair and head.config()["dense_activation"] == name


def test_fresh_weights_leave_the_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    built({"kind": "seaver"}, seed=8)
    assert torch.equal(torch.rand(2), expected)


def test_a_large_alpha_leaves_the_states() -> None:
    states, attention = side(0).tokens, side(0).attention
    assert attention is not None
    for alpha in (1e3, 1e6):
        augmentation = SelfAugmentation(dimension=8, heads=2, alpha=alpha)
        out = augmentation(states, attention[-1], SEGMENTS) / alpha
        assert_close(out, states, atol=20 / alpha, rtol=0)


def test_gradients_reach_the_attention_only_when_asked() -> None:
    for gradient, expected in (("states", False), ("states_and_weights", True)):
        head = built({"kind": "seaver", "gradient": gradient})
        given = side(1)
        assert given.attention is not None
        given.attention.requires_grad_(True)
        head([given]).score.sum().backward()
        assert (given.attention.grad is not None) is expected


def test_what_is_learned_gets_gradients() -> None:
    head = built({"kind": "seaver", "alpha": "learned", "temperature": "learned", "layers": "mix"})
    head([side(1)]).score.sum().backward()
    for name in ("augmentation.alpha", "augmentation.log_temperature", "mix"):
        gradient = dict(head.named_parameters())[name].grad
        assert gradient is not None and gradient.abs().sum() > 0
    assert head.layout.attention_layers == (0, 1, 2)
    mixed = head.attention(side(1))
    assert_close(mixed, side(1).attention.mean(dim=0))  # type: ignore[union-attr]


def test_random_places_are_drawn_in_training_and_fixed_in_use() -> None:
    head = built({"kind": "rand_aug"})
    torch.manual_seed(0)
    drawn = {tuple(head.pieces(SEGMENTS)[0].tolist()) for _ in range(20)}
    assert len(drawn) > 1
    head.eval()
    fixed = head.pieces(SEGMENTS)
    wider = torch.nn.functional.pad(SEGMENTS, (0, 3), value=PADDING)
    assert torch.equal(head.pieces(wider)[:, :6], fixed)


def test_vectors_without_a_condition_are_compared_as_they_are() -> None:
    alone = side(2)
    blank = Encoded(
        alone.embedding, alone.tokens, torch.tensor([[1, 1], [1, 1]]), segments=SEGMENTS
    )
    for config in ({"kind": "tri"}, {"kind": "bi", "subtract": 0.7}):
        u, v = side(0), side(1)
        found = built(config).eval()([u, v, blank]).score
        assert_close(found, torch.cosine_similarity(u.embedding, v.embedding))


def test_an_untrained_hypernetwork_changes_nothing() -> None:
    sides = [side(at) for at in range(3)]
    plain = built({"kind": "bi"})(sides[:2]).score
    assert_close(built({"kind": "bi", "projection": "hyper"})(sides).score, plain)


def test_a_learned_scale_starts_as_the_plain_one() -> None:
    sides = [side(0), side(1)]
    assert_close(
        built({"kind": "bi", "scale": "learned"})(sides).score, built({"kind": "bi"})(sides).score
    )


def test_a_flat_regressor_reads_its_one_length() -> None:
    regressor = Regressor(dimension=8, pooling="flatten", length=4)
    with pytest.raises(TertiumError, match="exactly 4 positions, got 6"):
        regressor(side(0).tokens, SEGMENTS)


def test_missing_parts_are_named() -> None:
    bare = Encoded(side(0).embedding, side(0).tokens, side(0).mask)
    with pytest.raises(TertiumError, match="where the condition is"):
        built({"kind": "cross"})([bare])
    with pytest.raises(TertiumError, match="needs the attention"):
        built({"kind": "seaver"})([replace(bare, segments=SEGMENTS)])


@pytest.mark.parametrize(("pooling", "segment"), [("sentence", 0), ("condition_tokens", 1)])
def test_tokens_of_one_segment_make_the_vector(pooling: str, segment: int) -> None:
    head = built({"kind": "bi", "pooling": pooling})
    one, two = side(1), side(2)
    found = head([one, two]).cosine
    for row in range(2):
        inside = SEGMENTS[row] == segment
        u, v = one.tokens[row][inside].mean(dim=0), two.tokens[row][inside].mean(dim=0)
        assert_close(found[row], torch.cosine_similarity(u, v, dim=0))


def test_without_a_condition_the_sentence_is_asked() -> None:
    alone = torch.where(SEGMENTS == 1, PADDING, SEGMENTS)
    sides = [replace(side(at), segments=alone) for at in (1, 2)]
    found = [
        built({"kind": "bi", "pooling": p})(sides).score for p in ("sentence", "condition_tokens")
    ]
    assert_close(found[0], found[1])
