"""Formulas with two or more callers: tensors in, tensors out."""

from tertium.functional.attention import attention_rollout, received_attention
from tertium.functional.contrast import contrastive_tension, info_nce, nt_xent
from tertium.functional.pooling import pool
from tertium.functional.similarity import (
    alignment,
    anisotropy,
    cosine_matrix,
    cosine_pairs,
    effective_rank,
    uniformity,
)

__all__ = [
    "alignment",
    "anisotropy",
    "attention_rollout",
    "contrastive_tension",
    "cosine_matrix",
    "cosine_pairs",
    "effective_rank",
    "info_nce",
    "nt_xent",
    "pool",
    "received_attention",
    "uniformity",
]
