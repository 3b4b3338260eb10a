"""Several models by name as one ensemble."""

import os
from collections.abc import Sequence

from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.average import ConditionalAverage
from tertium.models.ensemble import Ensemble
from tertium.models.loading import load_conditional, load_embedder
from tertium.models.pair import PairScorer
from tertium.models.shares import member_weights
from tertium.types import Pooling

__all__ = ["average", "combine"]


def combine(
    models: Sequence[str | os.PathLike[str]],
    *,
    weight: float | None = None,
    pooling: Pooling | str | None = None,
    name: str | None = None,
) -> Ensemble:
    """The plain sum of models, or JTCSE-UC's weighted one.

    Args:
        models: whatever :func:`tertium.load` takes; a model that grades gives its encoder.
        weight: of the last model; the sum of the others has the rest of 1 (default: the sum of
            all).
        pooling: use this pooling in all of them (default: each has its own).
        name: what results call the ensemble (default: the names of its members).
    """
    if not models:
        raise TertiumError("An ensemble needs at least one model.")
    weights = member_weights(len(models), weight)
    return Ensemble(
        [_embedder(model, pooling) for model in models],
        weights=weights,
        name=name or " + ".join(map(str, models)),
    )


def average(
    models: Sequence[str | os.PathLike[str]], *, weight: float | None = None
) -> ConditionalAverage:
    """The mean of what models answer that take a condition.

    Args:
        models: whatever :func:`tertium.load` takes.
        weight: of the last model; the others share the rest of 1 (default: equal shares).
    """
    weights = None
    if weight is not None:
        *others, last = member_weights(len(models), weight)
        weights = [share / len(others) for share in others] + [last]
    return ConditionalAverage(
        [load_conditional(model) for model in models],
        weights=weights,
        name=" + ".join(map(str, models)),
    )


def _embedder(model: str | os.PathLike[str], pooling: Pooling | str | None) -> Encoder | Ensemble:
    loaded = load_embedder(model, pooling=pooling)
    return loaded.encoder if isinstance(loaded, PairScorer) else loaded
