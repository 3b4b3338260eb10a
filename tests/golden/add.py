"""ADD: from attention to scores, from scores to shorter sentences, and a training step."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from tertium.functional import attention_rollout, info_nce, received_attention
from tertium.functional.contrast import contrast_logits
from tertium.types import Tokens
from tertium.views import AttentionDropout, Vocabulary
from tests.golden.cases import Case

AGGREGATIONS = {"naive": received_attention, "rollout": attention_rollout}


def aggregate(case: Case) -> None:
    attention = case.tensors["attentions"]
    lengths = torch.tensor(case.settings["lengths"])
    mask = (torch.arange(attention.shape[-1]) < lengths[:, None]).long()
    for name, scores in AGGREGATIONS.items():
        for only, last in (("", False), ("_last", True)):
            found = scores(attention, mask, last_layer_only=last, count_padding_queries=True)
            case.same(found, name + only)


def drop(case: Case) -> None:
    """Scores and shortened ids of the second sentence of each pair, under every setting."""
    ids = case.tensors["input_ids"]
    tokens = _tokens(case, ids[1::2])
    attention = _attention(case, tokens)
    case.same(attention, "attentions")
    for name, scores in AGGREGATIONS.items():
        for only, last in (("scores", False), ("scores_last_layer", True)):
            found = scores(attention, tokens.mask, last_layer_only=last, count_padding_queries=True)
            case.same(found, f"{only}.{name}")
    for setting in case.settings["settings"]:
        view = _view(setting, case)
        left = view(tokens, attend=lambda _: attention)
        wanted = case.tensors[f"out{setting['index']}.input_ids"]
        assert torch.equal(ids[0::2], wanted[0::2])
        assert torch.equal(left.ids, wanted[1::2])
        lengths = tokens.mask.sum(dim=1).tolist()
        dropped = [
            sum(at < length for at in positions)  # the reference also counts dropped padding
            for length, positions in zip(lengths, setting["dropped_positions"], strict=True)
        ]
        assert left.mask.sum(dim=1).tolist() == [
            length - gone for length, gone in zip(lengths, dropped, strict=True)
        ]


def padding_dependence(case: Case) -> None:
    finite: dict[str, list[Tensor]] = {"naive": [], "rollout": []}
    for at in range(len(case.settings["widths"])):
        ids = case.tensors[f"p{at}.input_ids"]
        tokens = _tokens(case, ids[1::2])
        attention = _attention(case, tokens)
        for name, scores in AGGREGATIONS.items():
            found = scores(attention, tokens.mask, count_padding_queries=True)
            case.same(found, f"p{at}.scores.{name}")
            view = _view({**case.settings, "summation_method": name}, case)
            left = view(tokens, attend=lambda _, found=attention: found)
            assert torch.equal(left.ids, case.tensors[f"p{at}.out.{name}"][1::2])
            ours = scores(attention, tokens.mask)
            finite[name].append(ours[ours.isfinite()])
    for name, under_paddings in finite.items():  # ours does not depend on the padding
        for other in under_paddings[1:]:
            case.same(other, under_paddings[0])
        assert name in AGGREGATIONS


def training_step(case: Case) -> None:
    """The reference keeps the old mask; with ours the recorded variant comes out."""
    model = case.model()
    ids, mask = case.tensors["input_ids"], case.tensors["attention_mask"]
    second = Tokens(ids[:, 1], mask[:, 1])
    attention = _attention(case, second)
    stale = _view(case.settings, case)
    stale.shorten_mask = False
    case.same(stale.scores(second, lambda _: attention), "scores")
    losses = {}
    for name, view in (("stale", stale), ("fresh", _view(case.settings, case))):
        changed = view(second, attend=lambda _: attention)
        assert torch.equal(changed.ids, case.tensors["dropped_input_ids"][:, 1])
        weight, bias = case.leaf("mlp.dense.weight"), case.leaf("mlp.dense.bias")
        z = [
            linear(
                model(tokens.ids, attention_mask=tokens.mask).last_hidden_state[:, 0], weight, bias
            ).tanh()
            for tokens in (Tokens(ids[:, 0], mask[:, 0]), changed)
        ]
        temperature = float(case.settings["temperature"])
        logits = contrast_logits(*z, temperature=temperature)
        loss = info_nce(*z, temperature=temperature).mean()
        losses[name] = loss
        case.same(logits, "sim" if name == "stale" else "variant.sim_mask_updated")
        if name == "stale":
            loss.backward()
            case.same(weight.grad, "grad.mlp.dense.weight")
    case.same(losses["stale"], "loss")
    case.same(losses["fresh"], "variant.loss_mask_updated")


def _tokens(case: Case, ids: Tensor) -> Tokens:
    return Tokens(ids, (ids != _padding(case)).long())


def _padding(case: Case) -> int:
    return int(case.model().config.pad_token_id)


def _attention(case: Case, tokens: Tokens) -> Tensor:
    with torch.no_grad():
        out = case.model()(tokens.ids, attention_mask=tokens.mask, output_attentions=True)
    return torch.stack(out.attentions)


def _view(settings: dict[str, object], case: Case) -> AttentionDropout:
    """As the reference does it: special tokens like others, padding queries counted."""
    vocabulary = Vocabulary(
        size=200, padding=_padding(case), mask=4, boundaries=(), characters=torch.ones(200).long()
    )
    return AttentionDropout(
        vocabulary,
        aggregation=str(settings["summation_method"]),
        rate=str(settings["dropout_rate"]),
        k=int(str(settings["n_dropout"])),
        t=int(str(settings["min_tokens"])),
        protect_special_tokens=False,
        count_padding_queries=True,
    )
