"""The same triple read twice with other dropout should have the same score."""

from typing import ClassVar

from tertium.errors import TertiumError
from tertium.objectives.base import TripleObjective
from tertium.types import Graded, Term

__all__ = ["Consistency"]


class Consistency(TripleObjective):
    """``(s - s')²`` of two passes: R-Drop (Liang et al., 2021), for scores instead of classes.

    Every triple is read twice, so that a step takes twice as long; the other objectives judge both
    passes.
    """

    passes: ClassVar[int] = 2

    def __init__(self) -> None:  # recipes read settings from the signature: there are none
        super().__init__()

    def judge(self, graded: Graded) -> dict[str, Term]:
        """One term, a value for each triple."""
        if graded.passes != 2:
            raise TertiumError(f"consistency compares two passes, got {graded.passes}.")
        first, second = graded.compared.score.chunk(2)
        return {"consistency": Term((first - second).square())}
