"""Heads: two embeddings to a score, and the projection that only training sees."""

from tertium.heads.pair import CosineHead, PairHead, SiameseHead
from tertium.heads.projection import Projection

__all__ = ["HEADS", "CosineHead", "PairHead", "Projection", "SiameseHead"]

HEADS: dict[str, type[PairHead]] = {"siamese": SiameseHead, "cosine": CosineHead}
