"""Formulas with two or more callers: tensors in, tensors out."""

from tertium.functional.contrast import info_nce
from tertium.functional.geometry import alignment, anisotropy, effective_rank, uniformity
from tertium.functional.pooling import pool
from tertium.functional.similarity import cosine_matrix, cosine_pairs

__all__ = [
    "alignment",
    "anisotropy",
    "cosine_matrix",
    "cosine_pairs",
    "effective_rank",
    "info_nce",
    "pool",
    "uniformity",
]
