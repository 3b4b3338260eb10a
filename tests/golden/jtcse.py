"""JTCSE: contrast within and between towers, modulus constraint, cross-attention branches."""

import torch
from torch import Tensor

from tertium.functional import nt_xent
from tertium.functional.modulus import modulus_constraint
from tertium.models.twin import cross_branches, cross_layers
from tests.golden.cases import Case


def infonce_icnce(case: Case) -> None:
    for at, temperature in enumerate(case.settings["temperatures"]):
        y1, y2 = case.leaf("y1"), case.leaf("y2")
        tau = float(temperature)
        within = nt_xent(y1[0::2], y1[1::2], temperature=tau).mean()
        case.same(within, f"t{at}.infonce.loss")
        (gradient,) = torch.autograd.grad(within, y1)
        case.same(gradient, f"t{at}.infonce.grad.y1")
        across = _across(y1, y2, tau)
        case.same(across, f"t{at}.icnce12.loss")
        for name, gradient in zip(("y1", "y2"), torch.autograd.grad(across, (y1, y2)), strict=True):
            case.same(gradient, f"t{at}.icnce12.grad.{name}")
        case.same(_across(y2, y1, tau), f"t{at}.icnce21.loss")


def ltn(case: Case) -> None:
    for variant in case.settings["variants"]:
        leaves = {
            "P1": case.leaf("P1"),
            "P2": case.leaf("P2"),
            "L1": case.leaf(f"{variant}.L1"),
            "L2": case.leaf(f"{variant}.L2"),
        }
        one = _ltn(leaves["P1"], leaves["P2"], leaves["L1"], leaves["L2"])
        two = _ltn(leaves["P2"], leaves["P1"], leaves["L2"], leaves["L1"])
        case.same(one, f"{variant}.ltn12")
        case.same(two, f"{variant}.ltn21")
        case.same(one + two, f"{variant}.ictm")
        for name, gradient in zip(
            leaves, torch.autograd.grad(one, list(leaves.values())), strict=True
        ):
            case.same(gradient, f"{variant}.ltn12.grad.{name}")


def cross_attention(case: Case) -> None:
    models = {
        name: case.model(folder=folder, add_pooling_layer=True)
        for name, folder in case.content["model"].items()
    }
    ids, mask = case.tensors["input_ids"], case.tensors["attention_mask"]
    out = {
        name: model(ids, attention_mask=mask, output_hidden_states=True)
        for name, model in models.items()
    }
    for name, found in out.items():
        case.same(torch.stack([s[:, 0] for s in found.hidden_states]), f"main.{name}.cls")
        case.same(found.pooler_output, f"pooler.{name}")
    states = out["I"].hidden_states, out["II"].hidden_states
    depth = case.settings["layers"]
    sides = [
        cross_branches(models["I"], models["II"], states, mask, layers=[at], branch="side")
        for at in range(1, depth + 1)
    ]
    for at, name in enumerate(("I", "II")):
        case.same(torch.stack([side[at][:, 0] for side in sides]), f"branch.{name}.cls")
        case.same(sides[-1][at], f"branch.{name}.last_layer_full")
    h = {name: found.last_hidden_state[:, 0] for name, found in out.items()}
    case.same(h["I"] + h["II"], "embedding")
    tau = float(case.settings["temperature"])
    nce = sum(nt_xent(y[0::2], y[1::2], temperature=tau).mean() for y in h.values())
    case.same(nce, "L_nce")
    pooled = {name: found.pooler_output for name, found in out.items()}
    ictm = _ltn(pooled["I"], pooled["II"], h["I"], h["II"])
    ictm = ictm + _ltn(pooled["II"], pooled["I"], h["II"], h["I"])
    case.same(ictm, "L_ictm")
    for chosen in case.content["layer_sets"]:
        count = chosen["number_of_cross_layers"]
        assert list(cross_layers(depth, count)) == chosen["one_based"]["layers_1_based"]
        for expected in (chosen["one_based"], chosen["zero_based"]):
            c = [branch[:, 0] for branch in sides[expected["last"] - 1]]
            for one, two, name in ((0, 1, "I_to_II"), (1, 0, "II_to_I")):
                y = list(h.values())
                icnce = _across(y[one], y[two], tau) + _across(c[one], c[two], tau)
                case.same(icnce, expected[f"L_icnce_{name}"])
                case.same(nce + icnce + ictm, expected[f"total_{name}"])
    c = [branch[:, 0] for branch in sides[-1]]
    total = nce + _across(h["I"], h["II"], tau) + _across(c[0], c[1], tau) + ictm
    case.same(total, "total")
    total.backward()
    for name in case.tensors:
        if name.startswith("grad."):
            _, tower, parameter = name.split(".", 2)
            case.same(models[tower].get_parameter(parameter).grad, name)


def _across(rows: Tensor, columns: Tensor, temperature: float) -> Tensor:
    against = columns[0::2], columns[1::2]
    return nt_xent(rows[0::2], rows[1::2], temperature=temperature, against=against).mean()


def _ltn(p1: Tensor, p2: Tensor, l1: Tensor, l2: Tensor) -> Tensor:
    """View a of one tower against view b of the other, halved as in the authors' code."""
    values = modulus_constraint(
        p1[0::2], p2[1::2], l1[0::2], l2[1::2], floor="negative", modulus_scale=0.5
    )
    return values.mean()
