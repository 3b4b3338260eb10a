import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

import tertium
from tertium.errors import TertiumError
from tertium.functional import contrastive_tension, info_nce
from tertium.models import Encoder
from tertium.models import encoder as encoder_module
from tertium.objectives import MSE, ContrastiveTension, InfoNCE, Objective, SmoothK2
from tertium.objectives.attention_mi import AttentionMI, aligned_attention
from tertium.training import TrainingModule
from tertium.training.examples import Collator
from tertium.training.module import WeightedObjective
from tertium.types import Encoded, Tokens, ViewPair
from tertium.views import View
from tests.fakes import tiny_model
from tests.training.toys import (
    contrastive_module,
    toy_examples,
    toy_module,
    toy_texts,
    without_dropout,
)


def test_one_merged_forward_gives_the_terms_of_two(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert, dropout=False).eval()
    encoder, examples = module.encoder, toy_examples(8)
    batch = Collator(encoder.tokenizer, max_length=64)([examples[at] for at in range(8)])
    found = module(**batch)
    sides = [
        encoder.forward(encoder.features([texts[side] for texts in examples.texts]))
        for side in (0, 1)
    ]
    assert examples.labels is not None
    views = ViewPair(*sides, labels=torch.tensor(examples.labels))
    expected = module.objectives["smooth_k2"](views)
    assert found.keys() == {"loss", "smooth_k2"}
    assert_close(found["smooth_k2"], expected["smooth_k2"], atol=1e-5, rtol=1e-5)
    assert_close(found["loss"], found["smooth_k2"])


def test_terms_are_weighted_and_added(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert, objectives={"smooth_k2": SmoothK2, "mse": MSE}).eval()
    weighted = TrainingModule(
        module.encoder,
        {
            "smooth_k2": WeightedObjective(module.objectives["smooth_k2"]),  # type: ignore[arg-type]
            "mse": WeightedObjective(module.objectives["mse"], weight=0.5),  # type: ignore[arg-type]
        },
        sides=2,
    ).eval()
    examples = toy_examples(4)
    batch = Collator(module.encoder.tokenizer, max_length=64)([examples[at] for at in range(4)])
    plain, found = module(**batch), weighted(**batch)
    assert_close(found["mse"], 0.5 * plain["mse"])
    assert_close(found["loss"], plain["smooth_k2"] + 0.5 * plain["mse"])


def test_a_checkpoint_holds_all_that_learns(tiny_bert: Path) -> None:
    module = toy_module(tiny_bert)
    names = set(module.state_dict())
    assert "objectives.smooth_k2.head.dense.weight" in names
    assert any(name.startswith("model.0.") for name in names)
    assert {name for name, _ in module.named_parameters()} <= names


# single texts


class Seen(NamedTuple):
    encoder: Encoder
    tokens: Tokens
    encoded: Encoded


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """Every forward pass of any encoder."""
    seen: list[Seen] = []
    original = Encoder.forward

    def spy(self: Encoder, features: dict[str, Tensor], **options: Any) -> Encoded:
        out = original(self, features, **options)
        mask = features["attention_mask"]
        ids = features.get("input_ids", torch.full_like(mask, -1))  # looked up before, in groups
        seen.append(Seen(self, Tokens(ids, mask), out))
        return out

    monkeypatch.setattr(Encoder, "forward", spy)
    return seen


def collated(module: TrainingModule, count: int = 4, *, sides: int = 1) -> dict[str, Tensor]:
    examples = toy_texts(count, sides=sides)
    return Collator(module.encoder.tokenizer, max_length=64)([examples[at] for at in range(count)])


def lengths(tokens: Tokens) -> list[int]:
    return tokens.mask.sum(1).tolist()


def told_apart(passes: list[Seen], ids: Tensor) -> tuple[Seen, Seen]:
    """The pass that begins with the sentences as they are, and the one with hidden tokens."""
    one, two = passes
    return (one, two) if torch.equal(one.tokens.ids[: len(ids)], ids) else (two, one)


def halves(embedding: Tensor) -> tuple[Tensor, Tensor]:
    n = len(embedding) // 2
    return embedding[:n], embedding[n:]


def test_a_text_meets_itself_under_another_dropout(tiny_bert: Path, passes: list[Seen]) -> None:
    module = contrastive_module(tiny_bert, InfoNCE(temperature=0.1), views={"dropout": {}}).train()
    batch = collated(module)
    found = module(**batch)
    (only,) = passes
    assert torch.equal(only.tokens.ids, batch["input_ids"].repeat(2, 1))
    assert torch.equal(only.tokens.mask, batch["attention_mask"].repeat(2, 1))
    first, second = halves(only.encoded.embedding)
    assert not torch.allclose(first, second, atol=1e-3)
    assert_close(found["contrast"], info_nce(first, second, temperature=0.1).mean())
    assert_close(found["loss"], found["contrast"])
    still = without_dropout(module)
    still(**batch)
    assert_close(*halves(passes[-1].encoded.embedding))


def test_without_views_a_text_meets_itself_too(tiny_bert: Path) -> None:
    plain, twin = (
        contrastive_module(tiny_bert, views=views, dropout=False)
        for views in (None, {"dropout": {}})
    )
    batch = collated(plain)
    assert_close(plain(**batch)["loss"], twin(**batch)["loss"])


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_attention_drops_tokens_of_the_second_side_alone(
    model: str, passes: list[Seen], request: pytest.FixtureRequest
) -> None:
    module = contrastive_module(
        request.getfixturevalue(model), views={"add": {"k": 2, "t": 0}}, masked=True
    ).train()
    batch = collated(module)
    before = batch["attention_mask"].sum(1).tolist()
    scored: list[Tokens] = []
    original = module.attend

    def attend(tokens: Tokens) -> Tensor:
        scored.append(tokens)
        return original(tokens)

    module.attend = attend
    torch.manual_seed(0)  # of the hidden tokens
    found = module(**batch)
    # Scores are of the sentences as they are, in an eval mode that is left again.
    assert [tokens.ids.tolist() for tokens in scored] == [batch["input_ids"].tolist()]
    assert module.training and module.encoder.model.training
    contrast, masked = told_apart(passes, batch["input_ids"])
    assert lengths(contrast.tokens) == before + [max(length - 2, 3) for length in before]
    assert torch.equal(contrast.tokens.ids[:4], batch["input_ids"])
    # The masked pass sees both copies whole, with some tokens hidden.
    assert lengths(masked.tokens) == before * 2
    assert not torch.equal(masked.tokens.ids, batch["input_ids"].repeat(2, 1))
    assert found.keys() == {"loss", "contrast", "masked_lm"}
    assert_close(found["loss"], found["contrast"] + found["masked_lm"])


def test_views_stack_in_their_order(tiny_bert: Path) -> None:
    class Recorded(View):
        def __init__(self, at: int) -> None:
            self.at = at

        def __call__(self, tokens: Tokens, **_: Any) -> Tokens:
            order.append((self.at, tokens.ids.shape[1]))
            return Tokens(pad(tokens.ids, (0, 1)), pad(tokens.mask, (0, 1)))

    order: list[tuple[int, int]] = []
    module = contrastive_module(tiny_bert)
    module.views = (Recorded(1), Recorded(2), Recorded(3))
    batch = collated(module)
    width = batch["input_ids"].shape[1]
    assert module(**batch)["loss"].isfinite()
    assert order == [(1, width), (2, width + 1), (3, width + 2)]


def test_sides_of_different_width_are_padded_together(
    tiny_roberta: Path, passes: list[Seen]
) -> None:
    module = contrastive_module(tiny_roberta, views={"repeat": {"rate": 1.0}}, dropout=False)
    batch = collated(module, 8)
    torch.manual_seed(0)
    found = module(**batch)
    (only,) = passes
    width = batch["input_ids"].shape[1]
    assert only.tokens.ids.shape[1] > width
    padding = module.encoder.tokenizer.pad_token_id
    assert (only.tokens.ids[:8, width:] == padding).all()
    assert (only.tokens.ids[only.tokens.mask == 0] == padding).all()
    sides = [
        module.encoder.forward({"input_ids": ids, "attention_mask": mask}).embedding
        for ids, mask in (
            (batch["input_ids"], batch["attention_mask"]),
            (only.tokens.ids[8:], only.tokens.mask[8:]),
        )
    ]
    assert_close(found["loss"], info_nce(*sides, temperature=0.05).mean(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_texts_of_full_length_can_be_repeated(
    model: str, passes: list[Seen], request: pytest.FixtureRequest
) -> None:
    module = contrastive_module(request.getfixturevalue(model), views={"repeat": {"rate": 1.0}})
    texts: Any = [(("a b " * 40,), None), (("c d " * 25,), None), (("x y",), None)]
    batch = Collator(module.encoder.tokenizer, max_length=64)(texts)
    for seed in range(5):
        torch.manual_seed(seed)
        assert module(**batch)["loss"].isfinite()
    assert max(max(lengths(seen.tokens)) for seen in passes) <= 66


def test_hard_negatives_are_the_third_side(tiny_bert: Path, passes: list[Seen]) -> None:
    module = contrastive_module(
        tiny_bert, InfoNCE(temperature=0.1, negative_weight=0.5), sides=3, dropout=False
    )
    found = module(**collated(module, sides=3))
    a, p, h = passes[0].encoded.embedding.chunk(3)
    expected = info_nce(a, p, temperature=0.1, negatives=h, negative_weight=0.5)
    assert_close(found["contrast"], expected.mean())


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
@pytest.mark.parametrize("protect", [True, False])
def test_groups_of_like_length_give_the_same_loss_and_gradients(
    model: str, protect: bool, passes: list[Seen], request: pytest.FixtureRequest
) -> None:
    results = []
    for tokens_per_pass in (None, 20):
        module = contrastive_module(
            request.getfixturevalue(model),
            InfoNCE(temperature=0.5),
            views={"add": {"k": 8, "t": 0, "protect_special_tokens": protect}},
            masked=True,
            dropout=False,
            tokens_per_pass=tokens_per_pass,
        )
        torch.manual_seed(0)
        passes.clear()
        found = module(**collated(module))
        widths = {seen.tokens.ids.shape[1] for seen in passes}
        assert (len(widths) > 2) == (tokens_per_pass is not None)
        found["loss"].backward()
        gradients = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        results.append((found, gradients))
    (loss, gradients), (grouped_loss, grouped) = results
    assert_close(grouped_loss, loss, atol=1e-5, rtol=1e-5)
    assert grouped.keys() == gradients.keys() and gradients
    for name, gradient in gradients.items():
        assert_close(grouped[name], gradient, atol=1e-4, rtol=1e-3, msg=name)


# the projection


def test_the_projection_is_for_training_alone(
    tiny_bert: Path, passes: list[Seen], tmp_path: Path
) -> None:
    module = contrastive_module(
        tiny_bert, InfoNCE(temperature=0.1), projection=True, masked=True, dropout=False
    )
    plain = tertium.load(tiny_bert, engine="torch").encode(["a b c", "x"])
    passes.clear()
    batch = collated(module)
    torch.manual_seed(0)  # of the hidden tokens
    found = module(**batch)
    assert module.projection is not None
    contrast, _ = told_apart(passes, batch["input_ids"])
    sides = halves(module.projection(contrast.encoded.embedding))
    assert_close(found["contrast"], info_nce(*sides, temperature=0.1).mean())
    found["loss"].backward()
    assert module.projection.dense.weight.grad is not None
    assert module.projection.dense.weight.grad.any()
    np.testing.assert_array_equal(module.encoder.encode(["a b c", "x"]), plain)
    module.encoder.save(tmp_path / "model")
    np.testing.assert_allclose(
        tertium.load(tmp_path / "model", engine="torch").encode(["a b c", "x"]), plain, atol=1e-6
    )


def test_a_checkpoint_holds_projection_language_head_and_partner(tiny_bert: Path) -> None:
    module = contrastive_module(
        tiny_bert, ContrastiveTension(negatives=1), projection=True, masked=True
    )
    names = set(module.state_dict())
    assert "projection.dense.weight" in names
    assert "objectives.MaskedLM.head.bias" in names
    parts = {name.partition(".")[0] for name in names}
    assert parts == {"model", "partner_model", "projection", "objectives"}
    shared = [parameter.data_ptr() for parameter in module.state_dict().values()]
    assert len(set(shared)) == len(shared)  # nothing is stored twice
    assert {name for name, _ in module.named_parameters()} <= names


# contrastive tension


def test_tension_has_two_encoders_that_learn(tiny_bert: Path, passes: list[Seen]) -> None:
    module = contrastive_module(tiny_bert, ContrastiveTension(negatives=1), dropout=False)
    assert module.partner is not None and module.partner is not module.encoder
    batch = collated(module)
    found = module(**batch)
    anchors, candidates = passes
    assert anchors.encoder is module.partner and candidates.encoder is module.encoder
    assert torch.equal(anchors.tokens.ids, batch["input_ids"][::2])
    assert torch.equal(candidates.tokens.ids, batch["input_ids"])
    expected = contrastive_tension(
        anchors.encoded.embedding, candidates.encoded.embedding.reshape(2, 2, -1)
    )
    assert_close(found["tension"], expected.mean())
    found["loss"].backward()
    own, other = (
        {n: p for n, p in m.named_parameters() if "pooler" not in n}
        for m in (module.encoder.model, module.partner.model)
    )
    assert own.keys() == other.keys()
    for name, parameter in own.items():
        assert parameter is not other[name] and torch.equal(parameter, other[name])
        for side in (parameter, other[name]):
            assert side.grad is not None and side.grad.isfinite().all(), name
    assert any(not torch.equal(own[name].grad, other[name].grad) for name in own)


def test_other_objectives_have_one_encoder(tiny_bert: Path) -> None:
    assert contrastive_module(tiny_bert).partner is None


def test_a_batch_that_cannot_be_cut_into_groups(tiny_bert: Path) -> None:
    module = contrastive_module(tiny_bert, ContrastiveTension(negatives=2))
    with pytest.raises(
        TertiumError, match=r"4 examples cannot be split into groups of 3.*multiple"
    ):
        module(**collated(module, 4))
    assert module(**collated(module, 6))["loss"].isfinite()


# attention


EVERY = 10_000  # more samples than there are positions


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, Tensor]]:
    """The attention that every pass materialised, by layer."""
    seen: list[dict[int, Tensor]] = []
    original = encoder_module.capture_attention

    @contextlib.contextmanager
    def spy(*arguments: Any) -> Iterator[dict[int, Tensor]]:
        with original(*arguments) as captured:
            seen.append(captured)
            yield captured

    monkeypatch.setattr(encoder_module, "capture_attention", spy)
    return seen


def test_only_the_layers_that_are_looked_at_keep_attention(
    tmp_path: Path, captures: list[dict[int, Tensor]]
) -> None:
    deep = tiny_model(tmp_path / "deep", layers=6)
    module = contrastive_module(deep, InfoNCE(), AttentionMI(), masked=True)
    module(**collated(module))
    assert [sorted(layers) for layers in captures] == [[3, 4]]  # the masked pass keeps none
    captures.clear()
    module = contrastive_module(deep, InfoNCE(), masked=True)
    module(**collated(module))
    assert captures == []


@pytest.mark.parametrize("views", [None, {"add": {"k": 2, "t": 0}}], ids=["dropout", "add"])
def test_attention_of_both_views_has_gradients(
    views: Any, tiny_bert: Path, captures: list[dict[int, Tensor]]
) -> None:
    module = contrastive_module(tiny_bert, AttentionMI(samples=40), views=views).train()
    batch = collated(module)
    found = module(**batch)
    assert found.keys() == {"loss", "attention_mi"} and found["loss"] < 0
    (maps,) = [layers for layers in captures if set(layers) == {1, 2}]
    for layer in maps.values():
        (gradient,) = torch.autograd.grad(found["loss"], layer, retain_graph=True)
        real = batch["attention_mask"].sum(1) > 4
        for side in halves(gradient):
            assert side.isfinite().all() and side[real].flatten(1).any(1).all()
    found["loss"].backward()
    queries = module.encoder.backbone.encoder.layer[0].attention.self.query.weight
    assert queries.grad is not None and queries.grad.any()


def term(first: Encoded, second: Encoded, sources: Tensor | None = None) -> Tensor:
    return AttentionMI(samples=EVERY)(ViewPair(first, second, sources=sources))["attention_mi"]


def rows(encoded: Encoded, at: slice) -> Encoded:
    assert encoded.attention is not None
    return Encoded(
        encoded.embedding[at], encoded.tokens[at], encoded.mask[at], encoded.attention[:, at]
    )


@pytest.mark.parametrize("tokens_per_pass", [None, 20])
def test_attention_is_compared_on_tokens_that_both_sides_kept(
    tokens_per_pass: int | None, tiny_bert: Path
) -> None:
    module = contrastive_module(
        tiny_bert,
        AttentionMI(samples=EVERY),
        views={"add": {"k": 2, "t": 0}, "repeat": {"rate": 0.0}},
        dropout=False,
        tokens_per_pass=tokens_per_pass,
    )
    batch = collated(module)
    torch.manual_seed(0)  # of the repeated tokens
    found = module(**batch)["attention_mi"]
    tokens = Tokens(batch["input_ids"], batch["attention_mask"])
    torch.manual_seed(0)
    changed = tokens
    for view in module.views:
        changed = view(changed, attend=module.encoder.attention)
    assert changed.sources is not None
    layers = AttentionMI().attention_layers(3)
    first, second = (
        module.encoder.forward(
            {"input_ids": side.ids, "attention_mask": side.mask}, attention_layers=layers
        )
        for side in (tokens, changed)
    )
    assert first.attention is not None and second.attention is not None
    aligned = aligned_attention(first.attention, changed.sources, changed.mask)
    kept = Encoded(second.embedding, second.tokens, second.mask, aligned)
    assert_close(found, term(kept, second), atol=1e-4, rtol=1e-4)
    # Place by place, other tokens would be compared.
    assert not torch.isclose(found, term(first, second), rtol=1e-2)


def test_tension_compares_the_attention_of_its_anchors(tiny_bert: Path, passes: list[Seen]) -> None:
    module = contrastive_module(
        tiny_bert, ContrastiveTension(negatives=1), AttentionMI(samples=EVERY)
    ).train()
    found = module(**collated(module))
    anchors, candidates = (seen.encoded for seen in passes)
    assert anchors.attention is not None and anchors.attention.shape[1] == 2
    expected = term(anchors, rows(candidates, slice(None, None, 2)))
    assert_close(found["attention_mi"], expected)
    assert not torch.isclose(expected, term(anchors, rows(candidates, slice(2, 4))), rtol=1e-2)
    found["attention_mi"].backward()
    for encoder in (module.encoder, module.partner):
        assert encoder is not None
        queries = encoder.backbone.encoder.layer[1].attention.self.query.weight
        assert queries.grad is not None and queries.grad.any()


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_roberta"])
def test_groups_of_like_length_compare_the_same_attention(
    model: str, request: pytest.FixtureRequest
) -> None:
    results = []
    objectives: list[Objective] = [InfoNCE(temperature=0.5), AttentionMI(samples=EVERY)]
    for tokens_per_pass in (None, 20):
        module = contrastive_module(
            request.getfixturevalue(model),
            *objectives,
            views={"add": {"k": 2, "t": 0}},
            dropout=False,
            tokens_per_pass=tokens_per_pass,
        )
        found = module(**collated(module))
        found["loss"].backward()
        gradients = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        results.append((found, gradients))
    (loss, gradients), (grouped_loss, grouped) = results
    assert_close(grouped_loss, loss, atol=1e-4, rtol=1e-4)
    for name, gradient in gradients.items():
        assert_close(grouped[name], gradient, atol=1e-3, rtol=1e-2, msg=name)
