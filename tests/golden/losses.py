"""STS-Regression: dead-zone losses, the siamese step, parameter groups."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tertium.functional.pooling import masked_mean
from tertium.heads import SiameseHead
from tertium.objectives.regression import (
    SmoothK2,
    TranslatedReLU,
    clip_to_range,
    smooth_k2,
    translated_relu,
)
from tertium.training.stage import parameter_settings
from tertium.types import Encoded, ViewPair
from tests.golden.cases import Case

LOSSES: dict[str, Callable[..., Tensor]] = {
    "translated_relu": translated_relu,
    "smooth_k2": smooth_k2,
}
OBJECTIVES = {"translated_relu": TranslatedReLU, "smooth_k2": SmoothK2}


def loss(case: Case) -> None:
    function = LOSSES[case.content["kind"]]
    for setting in case.settings["settings"]:
        at = setting["index"]
        predicted = case.leaf("predictions")
        values = function(
            predicted,
            case.tensors["labels"],
            slope=float(setting["k"]),
            threshold=float(setting["x0"]),
        )
        values.mean().backward()
        case.same(values, f"s{at}.elementwise")
        case.same(values.mean(), f"s{at}.loss")
        case.same(predicted.grad, f"s{at}.grad")


def siamese(case: Case) -> None:
    for setting in case.settings["settings"]:
        _siamese_step(case, setting)


def _siamese_step(case: Case, setting: dict[str, Any]) -> None:
    model = case.model()
    sides = []
    for side in ("a", "b"):
        mask = case.tensors[f"{side}.attention_mask"]
        tokens = model(case.tensors[f"{side}.input_ids"], attention_mask=mask).last_hidden_state
        sides.append(Encoded(embedding=masked_mean(tokens, mask), tokens=tokens, mask=mask))
    head = SiameseHead(dimension=sides[0].embedding.shape[1])
    head.dense.load_state_dict({k: case.tensors[f"dense.{k}"] for k in ("weight", "bias")})
    labels = case.tensors["labels"].squeeze(1)
    objective = OBJECTIVES[str(setting["loss"])](
        head=head,
        low=0.0,
        high=float(labels.max()),
        clip="low",
        slope=float(setting["k"]),
        threshold=float(setting["x0"]),
    )
    raw: list[Tensor] = []

    def keep(module: object, inputs: object, output: Tensor) -> None:
        output.retain_grad()
        raw.append(output)

    head.register_forward_hook(keep)
    terms = objective(ViewPair(*sides, labels=labels))
    total = sum(terms.values(), start=torch.tensor(0.0))
    total.backward()
    case.same(sides[0].embedding, "u")
    case.same(sides[1].embedding, "v")
    case.same(raw[0], "raw_prediction")
    clipped = clip_to_range(raw[0].squeeze(1), low=0.0, high=9.0, clip=objective.clip)
    case.same(clipped.unsqueeze(1), "masked_prediction")
    prefix = f"s{setting['index']}."
    case.same(total, f"{prefix}loss")
    gradients = {"raw_prediction": raw[0].grad}
    gradients |= {f"dense.{name}": p.grad for name, p in head.dense.named_parameters()}
    gradients |= {f"encoder_model.{name}": p.grad for name, p in model.named_parameters()}
    for name in case.tensors:
        if name.startswith(f"{prefix}grad."):
            case.same(gradients[name.removeprefix(f"{prefix}grad.")], name)


def param_groups(case: Case) -> None:
    settings = case.settings
    for parameters in case.content["groups"].values():
        layers = {int(n.split(".layer.")[1].split(".")[0]) for n in parameters if ".layer." in n}
        for name, expected in parameters.items():
            rate, decay = parameter_settings(
                name,
                learning_rate=settings["base_lr"],
                weight_decay=settings["weight_decay"],
                layer_decay=settings["rate_decay_factor"],
                depth=len(layers),
            )
            torch.testing.assert_close(rate, expected["lr"], rtol=1e-9, atol=0)
            assert decay == expected["weight_decay"]
