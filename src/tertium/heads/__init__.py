"""Heads: two embeddings to a score."""

from tertium.heads.pair import CosineHead, PairHead, SiameseHead

__all__ = ["HEADS", "CosineHead", "PairHead", "SiameseHead"]

HEADS: dict[str, type[PairHead]] = {"siamese": SiameseHead, "cosine": CosineHead}
