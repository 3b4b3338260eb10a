"""Load a model and choose its engine."""

import os
import warnings
from importlib.util import find_spec
from typing import Any

from tertium.engines import Plan, check_device, engine_name
from tertium.engines.plan import apply, plan
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.hardware import has_accelerator
from tertium.models import loading
from tertium.models.base import Embedder, Model
from tertium.models.names import resolve
from tertium.models.tokenizer import NotLightError
from tertium.types import EngineName, Pooling

__all__ = ["load", "load_embedder", "opened", "plan_for"]


def load(
    name: str | os.PathLike[str] = "default",
    *,
    pooling: Pooling | str | None = None,
    device: str | None = None,
    max_length: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    truncate_dim: int | None = None,
    engine: EngineName | str | Plan = EngineName.DEFAULT,
    threads: int | None = None,
) -> Model:
    """Load a model.

    Args:
        name: a reserved name (``default``, ``sts``, ``conditional``), a folder (anything with a
            path separator, or that exists) in the layout of tertium, sentence-transformers or
            transformers, or a hub id.
        pooling: use this pooling instead of the saved one; without either, published models
            (``tertium.models.checkpoints``) use that of their papers.
        device: torch device (default: the best available).
        max_length: maximum number of tokens of a text.
        revision: branch, tag or commit of a hub model.
        trust_remote_code: run code that comes with the model.
        truncate_dim: keep only the first so many dimensions of each vector; for a single encoder.
        engine: ``default`` (ONNX Runtime without torch; torch for models that only torch can read,
            and on a GPU), ``torch``, ``onnx``, ``onnx-int8``, ``openvino``, ``openvino-int8``,
            ``static``, or ``auto`` (the one measured to be fastest here or, until then, suggested
            by the processor's instructions). Graphs are exported on first use. Or a plan from
            :func:`plan_for`.
        threads: threads of an engine other than torch (default: one per core).

    Example:
        >>> import tertium
        >>> round(float(tertium.load().score([("A cat sleeps.", "A cat is asleep.")])[0]), 1)
        0.9
    """
    options: dict[str, Any] = {
        "pooling": pooling,
        "device": device,
        "max_length": max_length,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
    }
    model = _run_by(engine, name, options, threads=threads)
    return loading.shortened(model, truncate_dim)


def _run_by(
    engine: EngineName | str | Plan,
    name: str | os.PathLike[str],
    options: dict[str, Any],
    *,
    threads: int | None,
) -> Model:
    revision = options["revision"]
    if isinstance(engine, tuple):
        model = opened(name, by_torch=_by_torch(engine), **options)
        return apply(model, engine, folder=resolve(name, revision=revision), threads=threads)
    chosen = engine_name(engine)
    options["device"] = check_device(chosen, options["device"])
    model = opened(name, by_torch=chosen is EngineName.TORCH, **options)
    if chosen is EngineName.TORCH:
        return model
    folder = resolve(name, revision=revision)
    try:
        planned = plan(model, chosen, folder=folder)
        if needs_engine(model) and _by_torch(planned):
            model = opened(name, by_torch=True, **options)
        auto = chosen is EngineName.AUTO
        return apply(model, planned, folder=folder, threads=threads, or_torch=auto)
    except TertiumError as error:
        either = chosen in (EngineName.DEFAULT, EngineName.AUTO)
        if not either or not _has_torch():
            raise
        model = opened(name, by_torch=True, **options)
        warnings.warn(f"{model.name} runs on torch: {error}", TertiumWarning, stacklevel=3)
        return model


def plan_for(
    name: str | os.PathLike[str],
    engine: EngineName | str,
    *,
    device: str | None = None,
    **options: Any,
) -> Plan:
    """The plan that :func:`load` would follow; takes its other options."""
    chosen = engine_name(engine)
    if chosen is EngineName.TORCH:
        return ()
    model = opened(name, by_torch=False, device=check_device(chosen, device), **options)
    folder = resolve(name, revision=options.get("revision"))
    return plan(model, chosen, folder=folder)


def needs_engine(model: Model) -> bool:
    """Whether any part of the model was read without torch."""
    return any(part.needs_engine for part in model.parts)


def opened(
    name: str | os.PathLike[str],
    *,
    by_torch: bool,
    device: str | None = None,
    trust_remote_code: bool = False,
    truncate_dim: int | None = None,
    **options: Any,
) -> Model:
    """The model without an engine and with whole vectors, read without torch if possible."""
    purpose = f"The model {os.fspath(name)}"
    light = device == "cpu" or (device is None and not (has_accelerator() and _has_torch()))
    if light and not by_torch and not trust_remote_code:
        try:
            return loading.load(name, light=True, **options)
        except NotLightError as error:
            purpose = f"{purpose} ({error})"
    if not _has_torch():
        require("train", purpose=purpose, packages=["torch"])
    return loading.load(name, device=device, trust_remote_code=trust_remote_code, **options)


def _has_torch() -> bool:
    return find_spec("torch") is not None


def _by_torch(planned: Plan) -> bool:
    """Whether the model, or a part of it, runs on torch."""
    return not planned or any(part.engine is EngineName.TORCH for part in planned)


def load_embedder(name: str | os.PathLike[str] = "default", **options: Any) -> Embedder:
    """Load a model that must have embeddings; takes the options of :func:`load`."""
    return loading.as_embedder(load(name, **options))
