"""Which model an index belongs to: its vectors mean nothing to any other."""

import hashlib

from tertium.corpus.store import Identity
from tertium.errors import TertiumError
from tertium.models.base import Embedder, Model
from tertium.models.vectors import vectors_fingerprint
from tertium.types import Kind

__all__ = ["check_identity", "identify", "retrieval_prompts", "same_model"]

_DOCUMENT = ("document", "passage", "corpus")  # names that models give it


def identify(model: Embedder) -> Identity:
    """The model as an index knows it: by the name that also loads what decides on its cosines."""
    return Identity(
        name=model.name_around or model.name,
        pooling=None if model.pooling is None else str(model.pooling),
        dimension=model.dimension,
        fingerprint=vectors_fingerprint(model),
        truncate_dim=getattr(model, "truncate_dim", None),
    )


def retrieval_prompts(model: Embedder) -> dict[str, str]:
    """What a model wants before queries and before documents, if it tells them apart."""
    known = model.prompts
    documents = [known[name] for name in _DOCUMENT if name in known]
    found = {"query": known["query"]} if "query" in known else {}
    return {**found, "document": documents[0]} if documents else found


def same_model(model: Embedder, known: Identity) -> bool:
    """Whether ``model`` makes the vectors that an index of ``known`` holds."""
    if model.dimension != known.dimension:
        return False
    if vectors_fingerprint(model) == known.fingerprint:
        return True
    return bool(model.members) and _former_fingerprint(model.vector_model) == known.fingerprint


def check_identity(model: Embedder, known: Identity, *, index: object) -> None:
    """Raise unless ``model`` makes the vectors that the index holds; its name may be another."""
    if same_model(model, known):
        return
    here = identify(model)
    if here.dimension != known.dimension:
        what = f"vectors of width {here.dimension}, the index has {known.dimension}"
    elif here.pooling != known.pooling:
        what = f"the pooling {here.pooling}, the index has {known.pooling}"
    else:
        what = "other weights or settings"
    remedy = "model that it was built with"
    if here.name == known.name and here.dimension != known.dimension:
        remedy = "engine that it was built with, such as --engine static"
    raise TertiumError(
        f"{index} was built with the model {known.name}, and {here.name} has {what}. Name the "
        f"{remedy}, or build the index again."
    )


def _former_fingerprint(model: Model) -> str:
    """What indexes of version 0.1 say: weights, pooling and dimension."""
    from tertium.models.fingerprint import hash_weights  # imports torch

    found = hashlib.sha256()
    for member in model.members:
        encoder = member.encoder
        found.update(f"member {member.weight!r}\n".encode() if model.kind is Kind.ENSEMBLE else b"")
        found.update(f"{encoder.pooling}\n{encoder.dimension}\n".encode())
        hash_weights(encoder.model, found)
    return found.hexdigest()
