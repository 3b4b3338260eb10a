"""Heads by their names in recipes and saved models."""

from collections.abc import Callable

from tertium.heads.bi import BiHead, TriHead
from tertium.heads.cross import (
    ClassifierHead,
    ConditionalHead,
    CrossHead,
    RandAugHead,
    SeaverHead,
)
from tertium.heads.pair import CosineHead, PairHead, SiameseHead

__all__ = ["CONDITIONAL_HEADS", "HEADS"]

# Heads that compare two embeddings. A recipe passes those of ``dimension``, ``low``, ``high``,
# ``outputs`` and ``seed`` that the signature names; all other arguments are settings.
HEADS: dict[str, type[PairHead]] = {"siamese": SiameseHead, "cosine": CosineHead}

# Heads that compare two sentences under a condition.
CONDITIONAL_HEADS: dict[str, Callable[..., ConditionalHead]] = {
    "cross": CrossHead,
    "classifier": ClassifierHead,
    "seaver": SeaverHead,
    "rand_aug": RandAugHead,
    "bi": BiHead,
    "tri": TriHead,
}
