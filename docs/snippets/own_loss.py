# my_losses.py
from tertium.functional import cosine_pairs
from tertium.objectives import Objective
from tertium.types import Term, ViewPair


class Gap(Objective):
    """Distance between cosine and label, to a power."""

    learns_from = frozenset({"graded"})

    def __init__(self, *, power: float = 2.0) -> None:
        super().__init__()
        self.power = power

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """One value per pair."""
        cosine = cosine_pairs(views.first.embedding, views.second.embedding)
        return {"gap": Term((cosine - views.targets).abs() ** self.power)}


print(sorted(Gap.learns_from))
