"""Objectives: encoded views in, named and weighted loss terms out."""

from tertium.objectives.base import Objective
from tertium.objectives.info_nce import InfoNCE
from tertium.objectives.regression import L1, MSE, CrossEntropy, SmoothK2, TranslatedReLU

__all__ = [
    "L1",
    "MSE",
    "OBJECTIVES",
    "CrossEntropy",
    "InfoNCE",
    "Objective",
    "SmoothK2",
    "TranslatedReLU",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "info_nce": InfoNCE,
    "cross_entropy": CrossEntropy,
    "l1": L1,
    "mse": MSE,
    "translated_relu": TranslatedReLU,
    "smooth_k2": SmoothK2,
}
