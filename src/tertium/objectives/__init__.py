"""Objectives: encoded views in, named and weighted loss terms out."""

import pkgutil
import sys
from pathlib import Path

from tertium.errors import TertiumError
from tertium.objectives.attention_mi import AttentionMI
from tertium.objectives.base import Objective
from tertium.objectives.contrastive import ContrastiveTension, InfoNCE, NTXent, PositivesOnly
from tertium.objectives.masked_lm import MaskedLM
from tertium.objectives.ranking import AnglE, CoSent
from tertium.objectives.regression import (
    L1,
    MSE,
    CrossEntropy,
    Distillation,
    SmoothK2,
    TranslatedReLU,
)
from tertium.objectives.triples import Consistency, Quadruplet
from tertium.objectives.twin import CrossTowerContrast, ModulusConstraint, TowerContrast

__all__ = [
    "L1",
    "MSE",
    "OBJECTIVES",
    "AnglE",
    "AttentionMI",
    "CoSent",
    "Consistency",
    "ContrastiveTension",
    "CrossEntropy",
    "CrossTowerContrast",
    "Distillation",
    "InfoNCE",
    "MaskedLM",
    "ModulusConstraint",
    "NTXent",
    "Objective",
    "PositivesOnly",
    "Quadruplet",
    "SmoothK2",
    "TowerContrast",
    "TranslatedReLU",
    "own_objective",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "info_nce": InfoNCE,
    "multiple_negatives": InfoNCE,  # its name in sentence-transformers
    "nt_xent": NTXent,
    "positives_only": PositivesOnly,
    "contrastive_tension": ContrastiveTension,
    "attention_mi": AttentionMI,
    "masked_lm": MaskedLM,
    "quadruplet": Quadruplet,
    "consistency": Consistency,
    "cosent": CoSent,
    "angle": AnglE,
    "tower_nce": TowerContrast,
    "icnce": CrossTowerContrast,
    "ictm": ModulusConstraint,
    "distil": Distillation,
    "cross_entropy": CrossEntropy,
    "l1": L1,
    "mse": MSE,
    "translated_relu": TranslatedReLU,
    "smooth_k2": SmoothK2,
}


def own_objective(name: str) -> type[Objective]:
    """A user-defined objective, given as ``module:Class``; the working directory is searched too.

    The module is executed, so a recipe that names one must be trusted like any program.
    """
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TertiumError(
            f"The objective {name} was not found ({error}). Write it as module:Class, and run from "
            "a folder where Python can import the module."
        ) from error
    finally:
        sys.path.remove(here)
    if not (isinstance(found, type) and issubclass(found, Objective)):
        raise TertiumError(f"{name} is not a subclass of tertium.objectives.Objective.")
    return found
