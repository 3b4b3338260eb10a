"""What ``auto`` means: the engine that was measured to be fastest here, torch where none runs."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from tertium.engines.parts import Part, parts_of
from tertium.engines.tuning import Trial, remembered
from tertium.errors import TertiumError, TertiumWarning
from tertium.models.base import Model
from tertium.types import EngineName

__all__ = ["or_torch", "tuned_parts"]


def tuned_parts(model: Model) -> list[tuple[Part, Trial | None]]:
    """Every part of ``model`` with the best trial on this machine; warns where there was none."""
    found = [(part, remembered(part.fingerprint)) for part in parts_of(model)]
    untuned = [part.name for part, best in found if best is None]
    if untuned:
        warnings.warn(
            f"Nothing is known about the fastest engine for {' and '.join(untuned)} on this "
            f"machine: torch runs it. Measure once: tertium tune --model {model.name}",
            TertiumWarning,
            stacklevel=4,
        )
    return found


@contextmanager
def or_torch(part: Part, engine: EngineName) -> Iterator[None]:
    """Warn instead of raising where ``engine`` cannot be had: torch goes on running ``part``."""
    try:
        yield
    except TertiumError as error:
        warnings.warn(
            f"torch runs {part.name}, not {engine}: {error}", TertiumWarning, stacklevel=5
        )
