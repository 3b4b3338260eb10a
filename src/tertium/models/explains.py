"""What every model that compares texts can be asked: why this score?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np

    from tertium.explain import Explanation, Focus, Reading
    from tertium.models.encoder import Truncation

__all__ = ["Explainable", "Explains"]

Item = tuple[str, ...]  # two texts, and a condition for a model that takes one


class Explainable(Protocol):
    """What an explanation needs of a model."""

    @property
    def name(self) -> str:
        """What results call the model."""
        ...

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest score."""
        ...

    @property
    def takes_conditions(self) -> bool:
        """Whether it compares triples, not pairs."""
        ...

    def score_items(
        self, items: Sequence[Item], *, truncation: "Truncation | None" = None
    ) -> "np.ndarray":
        """Scores of pairs or triples; beyond the scale if the model goes there."""
        ...

    def readings(self, item: Item) -> "list[Reading]":
        """The item as torch reads it; several where the score is the weighted mean of theirs.

        Raises ``TertiumError`` where torch does not run the model.
        """
        ...

    def focused(self, item: Item) -> "Focus | None":
        """Where attention goes under the item's condition, if the model shows that."""
        ...


class Explains:
    """Gives a model :meth:`explain`; see :class:`Explainable` for what it must offer."""

    @property
    def takes_conditions(self) -> bool:
        """Whether it compares triples, not pairs."""
        return False

    def focused(self, item: Item) -> "Focus | None":
        """Where attention goes under a condition; None without one."""
        return None

    def explain(
        self: Explainable,
        a: str,
        b: str,
        *,
        condition: str | None = None,
        method: str = "occlusion",
        steps: int | None = None,
        by: float | None = None,
        most: int = 6,
    ) -> "Explanation":
        """Say which words made the score of two texts.

        Every word is left out in turn, and the rest is scored again: this is exact, and any model
        can be asked so. What torch runs also shows which words of both texts belong together and,
        under a condition, where attention goes. Integrated gradients change what the model's word
        table gives while they are computed: no other thread may use the model then.

        Args:
            a: the first text.
            b: the second text.
            condition: the respect in which they are compared, for a model that takes conditions.
            method: ``occlusion``, or ``gradients`` for integrated gradients beside it, which need
                captum and a model run by torch.
            steps: points of that integral (default: as many as it takes for an error below 1 %).
            by: how far the smallest change shall move the score (default: one point; where a score
                is a cosine, 0.2).
            most: words that the smallest change may take; 0 leaves the search out.

        Example:
            >>> import tertium
            >>> found = tertium.load("sts").explain("A cat sleeps.", "A cat is asleep.")
            >>> max(zip(found.occlusion[0], found.words[0]), key=lambda pair: pair[0])[1].text
            'cat'
        """
        from tertium.explain import explained  # it needs the encoder, and this is part

        return explained(
            self, a, b, condition=condition, method=method, steps=steps, by=by, most=most
        )
