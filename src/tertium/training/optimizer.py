"""Which learning rate and weight decay each parameter gets."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from torch import nn

__all__ = ["parameter_groups", "parameter_settings"]

_LAYER = re.compile(r"\.layers?\.(\d+)\.")
_NO_DECAY = re.compile(r"(^|\.)bias$|layer_?norm", re.IGNORECASE)


def parameter_settings(
    name: str, *, learning_rate: float, weight_decay: float, layer_decay: float, depth: int
) -> tuple[float, float]:
    """Learning rate and weight decay of one parameter.

    The top encoder layer and all that is outside the layers (embeddings, heads) take the base
    rate; each lower layer takes ``layer_decay`` times the rate of the one above. Biases and
    LayerNorm are never decayed.
    """
    layer = _LAYER.search(name)
    below = depth - 1 - int(layer.group(1)) if layer else 0
    return learning_rate * layer_decay**below, 0.0 if _NO_DECAY.search(name) else weight_decay


def parameter_groups(
    parameters: Iterable[tuple[str, nn.Parameter]],
    *,
    learning_rate: float,
    weight_decay: float,
    layer_decay: float,
    depth: int,
) -> list[dict[str, Any]]:
    """Optimiser groups of the trainable parameters, one per pair of settings."""
    groups: defaultdict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in parameters:
        if parameter.requires_grad:
            settings = parameter_settings(
                name,
                learning_rate=learning_rate,
                weight_decay=weight_decay,
                layer_decay=layer_decay,
                depth=depth,
            )
            groups[settings].append(parameter)
    return [
        {"params": members, "lr": rate, "weight_decay": decay}
        for (rate, decay), members in groups.items()
    ]
