"""Looking at what models and views do, without changing anything."""

from tertium.analysis.augmentation import Augmented, Step, augment, drop_by_attention
from tertium.analysis.curves import low_shot_curves

__all__ = ["Augmented", "Step", "augment", "drop_by_attention", "low_shot_curves"]
