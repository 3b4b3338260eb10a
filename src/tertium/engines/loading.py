"""Load a model and choose what runs it."""

import os
from typing import Any

from tertium.engines import check_device, engine_name
from tertium.engines.plan import apply, plan
from tertium.models import loading
from tertium.models.base import Embedder, Model, TripleScorer
from tertium.models.names import resolve
from tertium.types import EngineName, Pooling

__all__ = ["load", "load_conditional", "load_embedder"]


def load(
    name: str | os.PathLike[str] = "default",
    *,
    pooling: Pooling | str | None = None,
    device: str | None = None,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    engine: EngineName | str = EngineName.TORCH,
    threads: int | None = None,
) -> Model:
    """Load a model.

    Args:
        name: a reserved name (``default``, ``sts``, ``conditional``), a folder (anything with a
            path separator, or that exists) in the layout of tertium, sentence-transformers or
            transformers, or a hub id.
        pooling: use this pooling instead of the saved one; without either, published models
            (``tertium.models.checkpoints``) have that of their papers.
        device: torch device (default: the best there is).
        max_length: read at most this many tokens of a text.
        revision: branch, tag or commit of a hub model.
        trust_remote_code: run code that comes with the model.
        engine: ``torch``, ``onnx``, ``onnx-int8``, ``openvino``, ``openvino-int8``, ``static`` or
            ``auto``, what ``tertium tune`` found best; a graph is exported on first use.
        threads: of an engine other than torch (default: as many as torch has).

    Example:
        >>> import tertium
        >>> round(float(tertium.load().score([("A cat sleeps.", "A cat is asleep.")])[0]), 1)
        0.9
    """
    device = check_device(engine, device)
    model = loading.load(
        name,
        pooling=pooling,
        device=device,
        max_length=max_length,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    chosen = engine_name(engine)
    if chosen is EngineName.TORCH:
        return model
    folder = resolve(name, revision=revision)
    planned = plan(model, chosen, folder=folder)
    either = chosen is EngineName.AUTO
    return apply(model, planned, folder=folder, threads=threads, or_torch=either)


def load_embedder(name: str | os.PathLike[str] = "default", **options: Any) -> Embedder:
    """Load a model that must give vectors; takes the options of :func:`load`."""
    return loading.as_embedder(load(name, **options))


def load_conditional(name: str | os.PathLike[str] = "conditional", **options: Any) -> TripleScorer:
    """Load a model that must take conditions, by default the one that ships; options of load."""
    return loading.as_conditional(load(name, **options))
