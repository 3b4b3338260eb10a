"""Objectives: encoded views in, named and weighted loss terms out."""

from tertium.objectives.attention_mi import AttentionMI
from tertium.objectives.base import Objective
from tertium.objectives.contrastive import ContrastiveTension, InfoNCE, NTXent, PositivesOnly
from tertium.objectives.masked_lm import MaskedLM
from tertium.objectives.regression import (
    L1,
    MSE,
    CrossEntropy,
    Distillation,
    SmoothK2,
    TranslatedReLU,
)
from tertium.objectives.triples import Consistency, CoSent, Quadruplet
from tertium.objectives.twin import CrossTowerContrast, ModulusConstraint, TowerContrast

__all__ = [
    "L1",
    "MSE",
    "OBJECTIVES",
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
]

OBJECTIVES: dict[str, type[Objective]] = {
    "info_nce": InfoNCE,
    "nt_xent": NTXent,
    "positives_only": PositivesOnly,
    "contrastive_tension": ContrastiveTension,
    "attention_mi": AttentionMI,
    "masked_lm": MaskedLM,
    "quadruplet": Quadruplet,
    "consistency": Consistency,
    "cosent": CoSent,
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
