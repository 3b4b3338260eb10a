"""Looking at what models and views do, without changing anything."""

from tertium.analysis.augmentation import Augmented, Step, augment, drop_by_attention

__all__ = ["Augmented", "Step", "augment", "drop_by_attention"]
