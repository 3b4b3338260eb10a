"""Explanations of the library, as the server gives them: in parts, and with a shorter search."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tertium.encoders.encoder import Truncation
from tertium.encoders.explains import Explainable
from tertium.encoders.explanation import explained
from tertium.serve.lanes import Refusal

if TYPE_CHECKING:
    from tertium.encoders.explanation import Focus, Reading

__all__ = ["explain", "explains"]

_PART = 1024  # characters that are scored before others have their turn
_MOST = 2  # words that the smallest change may take, and
_CANDIDATES = 8  # words among which both are looked for: all pairs of them are scored

Item = tuple[str, ...]


def explains(model: Any) -> bool:
    """Whether the model can say which words made a score."""
    return callable(getattr(model, "explain", None))


def explain(
    model: Any, a: str, b: str, on: str | None, *, pause: Callable[[], None]
) -> dict[str, Any]:
    """Which words made the score of two texts, perhaps under a condition.

    Args:
        model: what scored them.
        a: the first text.
        b: the second text.
        on: the condition.
        pause: called between two parts of the work, which it ends by raising.
    """
    if model is None or not explains(model):
        raise Refusal(501, "no_explanation", "The model does not explain its scores.")
    found = explained(
        _InParts(model, pause),
        a,
        b,
        condition=on,
        method="occlusion",
        steps=None,
        by=None,
        most=_MOST,
        candidates=_CANDIDATES,
    )
    return found.to_json()


class _InParts:
    """A model that scores few items at a time."""

    def __init__(self, model: Explainable, pause: Callable[[], None]) -> None:
        self._model = model
        self._pause = pause

    @property
    def name(self) -> str:
        """The model's."""
        return self._model.name

    @property
    def scale(self) -> tuple[float, float]:
        """The model's."""
        return self._model.scale

    @property
    def takes_conditions(self) -> bool:
        """Whether the model does."""
        return self._model.takes_conditions

    def score_items(
        self, items: Sequence[Item], *, truncation: Truncation | None = None
    ) -> np.ndarray:
        """The model's scores; nobody is warned of texts that are cut."""
        counted = truncation or Truncation()
        found = []
        for part in _parts(items):
            self._pause()
            found.append(self._model.score_items(part, truncation=counted))
        return np.concatenate(found)

    def readings(self, item: Item) -> "list[Reading]":
        """The model's."""
        self._pause()
        return self._model.readings(item)

    def focused(self, item: Item) -> "Focus | None":
        """The model's."""
        self._pause()
        return self._model.focused(item)


def _parts(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items in order, as many together as have few characters, and at least one."""
    part: list[Item] = []
    used = 0
    for item in items:
        size = sum(map(len, item))
        if part and used + size > _PART:
            yield part
            part, used = [], 0
        part.append(item)
        used += size
    if part:
        yield part
