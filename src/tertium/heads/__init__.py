"""Heads: from two embeddings or a triple to a score, and projections used only in training."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.heads.bi import BiHead, TriHead
    from tertium.heads.cross import ConditionalHead, CrossHead, RandAugHead, SeaverHead
    from tertium.heads.layout import HeadLayout, ModelShape
    from tertium.heads.pair import CosineHead, PairHead, Projection, SiameseHead
    from tertium.heads.registry import CONDITIONAL_HEADS, HEADS

__all__ = [
    "CONDITIONAL_HEADS",
    "HEADS",
    "BiHead",
    "ConditionalHead",
    "CosineHead",
    "CrossHead",
    "HeadLayout",
    "ModelShape",
    "PairHead",
    "Projection",
    "RandAugHead",
    "SeaverHead",
    "SiameseHead",
    "TriHead",
]

__getattr__ = lazy(__name__)
