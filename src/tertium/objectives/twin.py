"""JTCSE's objectives: two towers learn from their own views and from each other's."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.functional import nt_xent
from tertium.functional.modulus import modulus_constraint
from tertium.objectives.base import Objective, StagePart, Tempered
from tertium.types import Branch, Crossing, DataKind, Term, Towers, ViewPair

__all__ = ["CrossTowerContrast", "ModulusConstraint", "TowerContrast"]


class _TwinObjective(Objective):
    """An objective on both towers of a twin."""

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"texts"})
    two_towers: ClassVar[bool] = True
    excludes: ClassVar[Mapping[StagePart, str]] = {
        "projection: mlp": "it uses the towers' own states",
        "momentum": "it uses the towers' own states",
        "tower": "it trains both towers",
    }

    def towers(self, views: ViewPair) -> Towers:
        """Both towers' states; raises if the encoder has one tower."""
        if views.towers is None:
            raise TertiumError("This objective compares two towers, but the encoder has only one.")
        return views.towers


class TowerContrast(_TwinObjective, Tempered):
    """Each tower contrasts its own two views: JTCSE's NCE.

    Args:
        temperature: divides the cosines.
    """

    in_batch: ClassVar[bool] = True

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``tower_nce``, one value per view, summed over the towers."""
        first, second = self.towers(views).cls
        values = nt_xent(*first, temperature=self.temperature)
        return {"tower_nce": Term(values + nt_xent(*second, temperature=self.temperature))}


class CrossTowerContrast(_TwinObjective, Tempered):
    """One tower's views against the other's, before and after cross attention: JTCSE's ICNCE.

    Which tower is compared with the other is drawn at random for each batch.

    Args:
        temperature: divides the cosines.
        cross_layers: how many layers have cross attention; they are spread evenly, so the number
            must divide the depth. 0 for none, as in TNCSE.
        branch: how crossed states pass from one such layer to the next; see
            :func:`tertium.models.twin.cross_branches`.
    """

    in_batch: ClassVar[bool] = True

    def __init__(
        self,
        *,
        temperature: float = 0.05,
        cross_layers: int = 0,
        branch: Branch = "stream",
    ) -> None:
        super().__init__(temperature=temperature)
        if cross_layers < 0:
            raise TertiumError(f"cross_layers must not be negative, got {cross_layers}.")
        self.crossing = Crossing(cross_layers, branch) if cross_layers else None

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``icnce``, one value per view; with cross attention, the sum of both."""
        towers = self.towers(views)
        values = self._across(towers.cls, towers.asks)
        if towers.crossed is not None:
            values = values + self._across(towers.crossed, towers.asks)
        return {"icnce": Term(values)}

    def _across(self, states: Float[Tensor, "2 2 n d"], own: int) -> Float[Tensor, " rows"]:
        first, second = states[1 - own]
        return nt_xent(*states[own], temperature=self.temperature, against=(first, second))


class ModulusConstraint(_TwinObjective):
    """Both towers' vectors of a sentence agree in length and direction: JTCSE's ICTM.

    Args:
        floor: which cosines are replaced by a small constant; see
            :func:`tertium.functional.modulus_constraint`.
        modulus_scale: factor of the modulus ratio; the authors' code uses 0.5.
    """

    def __init__(
        self,
        *,
        floor: Literal["small", "negative"] = "small",
        modulus_scale: float = 0.5,
    ) -> None:
        super().__init__()
        if not modulus_scale > 0:
            raise TertiumError(f"modulus_scale must be positive, got {modulus_scale}.")
        self.floor = floor
        self.modulus_scale = modulus_scale

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``ictm``, one value per sentence, summed over both ways to assign the views."""
        towers = self.towers(views)
        if towers.pooled is None:
            raise TertiumError("The modulus constraint needs backbones with a pooler of their own.")
        cls, pooled = towers.cls, towers.pooled

        def values(own: int) -> Float[Tensor, " n"]:
            other = 1 - own
            return modulus_constraint(
                pooled[own, 0],
                pooled[other, 1],
                cls[own, 0],
                cls[other, 1],
                floor=self.floor,
                modulus_scale=self.modulus_scale,
            )

        return {"ictm": Term(values(0) + values(1))}
