"""miCSE: attention to slices, correlation, mutual information; and a training step."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from tertium.functional import info_nce
from tertium.functional.attention_mi import (
    MutualInformation,
    Positions,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tertium.functional.contrast import contrast_logits
from tests.golden.cases import Case


def ami(case: Case) -> None:
    attention = case.leaf("attentions")
    loss = _term(case, attention)
    loss.backward()
    low, high = sorted((case.settings["min_layer"], case.settings["max_layer"]))
    case.same(attention.grad[low:high], "grad.attentions_selected")
    rest = torch.cat([attention.grad[:low], attention.grad[high:]])
    assert not rest.any()
    if "variant.paper_slices" in case.tensors:
        _paper(case)


def training_step(case: Case) -> None:
    model = case.model()
    ids, mask = case.tensors["input_ids"], case.tensors["attention_mask"]
    out = model(ids.flatten(0, 1), attention_mask=mask.flatten(0, 1), output_attentions=True)
    weight, bias = case.leaf("mlp.dense.weight"), case.leaf("mlp.dense.bias")
    z = linear(out.last_hidden_state[:, 0], weight, bias).tanh()
    temperature = float(case.settings["temperature"])
    case.same(contrast_logits(z[0::2], z[1::2], temperature=temperature), "sim")
    contrast = info_nce(z[0::2], z[1::2], temperature=temperature).mean()
    case.same(contrast, "loss_nce")
    information = _term(case, torch.stack(out.attentions))
    loss = case.settings["task_alpha"] * contrast + case.settings["task_lambda"] * information
    loss.backward()
    case.same(loss, "loss")
    gradients = {"mlp.dense.weight": weight.grad, "mlp.dense.bias": bias.grad}
    gradients |= {f"encoder_model.{n}": p.grad for n, p in model.named_parameters()}
    for name in case.tensors:
        if name.startswith("grad."):
            case.same(gradients[name.removeprefix("grad.")], name)


def _term(case: Case, attention: Tensor) -> Tensor:
    """The attention term as the authors' code has it, at the positions it drew."""
    low, high = sorted((case.settings["min_layer"], case.settings["max_layer"]))
    first, second = (attention_slices(attention[low:high, at::2], pool="layers") for at in (0, 1))
    n, slices, entries = first.shape
    mask = torch.ones(n, attention.shape[-1], dtype=torch.long)
    valid = valid_positions(first, second, mask, count_padding_queries=True)
    ours = sample_positions(valid, samples=case.settings["target_samples"], short_slices="discard")
    kept = ours.used.any(dim=2).flatten().nonzero().flatten()
    assert torch.equal(kept, case.tensors["kept_slices"])
    assert int(ours.used.sum(dim=2).max()) == case.settings["samples_used"]
    select = torch.zeros(n * slices, case.tensors["select"].shape[1], dtype=torch.long)
    select[kept] = case.tensors["select"]
    used = torch.zeros(n * slices, dtype=torch.bool)
    used[kept] = True
    positions = Positions(
        select.view(n, slices, -1), used.view(n, slices, 1).expand(n, slices, select.shape[1])
    )
    found = mutual_information(first, second, positions)
    _check(case, first, second, valid, found)
    share = valid.view(n * slices, entries)[kept].double().mean()
    scale = share.square() + 1e-6
    case.same(scale, "scale")
    loss = -found.information[found.kept].mean() * scale
    case.same(loss, "MI_attn")
    return loss


def _check(
    case: Case, first: Tensor, second: Tensor, valid: Tensor, found: MutualInformation
) -> None:
    if "chunks" in case.tensors:
        case.same(torch.stack([first, second], dim=2).flatten(0, 1), "chunks")
    if "valid_count" in case.tensors:
        assert torch.equal(valid.sum(dim=2).flatten(), case.tensors["valid_count"])
    case.same(found.correlation[found.kept], "rho")
    case.same(found.information[found.kept], "mi")


def _paper(case: Case) -> None:
    """Pairs of adjacent heads, all valid positions, no scale: our default without sampling."""
    low, high = sorted((case.settings["min_layer"], case.settings["max_layer"]))
    attention = case.tensors["attentions"][low:high].double()
    first, second = (attention_slices(attention[:, at::2], pool="heads") for at in (0, 1))
    case.same(torch.stack([first, second], dim=2).flatten(0, 1), "variant.paper_slices")
    mask = torch.ones(len(first), attention.shape[-1], dtype=torch.long)
    valid = valid_positions(first, second, mask, count_padding_queries=True)
    positions = sample_positions(valid, samples=first.shape[2])
    found = mutual_information(first, second, positions)
    case.same(found.correlation.flatten(), "variant.paper_rho_all_valid")
    case.same(found.information.flatten(), "variant.paper_mi_all_valid")
    case.same(-found.information.mean(), "variant.paper_L_D_without_lambda")
