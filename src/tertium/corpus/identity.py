"""Which model made the vectors of an index: its name and a hash of what decides about them."""

import hashlib
from typing import Any

from pydantic import BaseModel, ConfigDict

from tertium.errors import TertiumError
from tertium.types import Embedder

__all__ = ["Identity", "check_identity", "identify"]


class Identity(BaseModel):
    """A model as an index knows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    pooling: str | None
    dimension: int
    fingerprint: str


def identify(model: Embedder) -> Identity:
    """Name, pooling, dimension, and the hash of the weights, pooling and dimension.

    A model that is not one of ours may have an attribute ``fingerprint`` that tells its weights;
    without it only its name stands for them.
    """
    found = hashlib.sha256()
    _hash_model(model, found)
    pooling = None if model.pooling is None else str(model.pooling)
    return Identity(
        name=model.name,
        pooling=pooling,
        dimension=model.dimension,
        fingerprint=found.hexdigest(),
    )


def check_identity(model: Embedder, known: Identity, *, index: object) -> None:
    """Raise unless ``model`` makes the vectors that the index holds; its name may be another."""
    here = identify(model)
    if here.fingerprint == known.fingerprint:
        return
    if here.dimension != known.dimension:
        what = f"vectors of width {here.dimension}, the index has {known.dimension}"
    elif here.pooling != known.pooling:
        what = f"the pooling {here.pooling}, the index has {known.pooling}"
    else:
        what = "other weights"
    raise TertiumError(
        f"{index} was built with the model {known.name}, and {here.name} has {what}. Name the "
        "model that it was built with, or build the index again."
    )


def _hash_model(model: Any, found: "hashlib._Hash") -> None:
    from torch.nn import Module

    from tertium.models.ensemble import Ensemble
    from tertium.models.hashing import hash_weights
    from tertium.models.pair import PairScorer

    if isinstance(model, PairScorer):
        return _hash_model(model.encoder, found)
    if isinstance(model, Ensemble):
        for member in model.members:
            found.update(f"member {member.weight!r}\n".encode())
            _hash_model(member.encoder, found)
        return None
    found.update(f"{model.pooling}\n{model.dimension}\n".encode())
    inside = getattr(model, "model", None)
    if isinstance(inside, Module):
        return hash_weights(inside, found)
    found.update(str(getattr(model, "fingerprint", f"name {model.name}")).encode())
    return None
