"""Objectives: encoded views in, named and weighted loss terms out."""

from tertium.objectives.base import Objective
from tertium.objectives.info_nce import InfoNCE

__all__ = ["OBJECTIVES", "InfoNCE", "Objective"]

OBJECTIVES: dict[str, type[Objective]] = {"info_nce": InfoNCE}
