"""Which words made a score: by leaving them out, and by integrated gradients."""

from tertium.encoders.explanation.explain import Explains, Explanation, Gradients
from tertium.encoders.explanation.gradients import Attributed, integrate_gradients
from tertium.encoders.explanation.occlusion import (
    Occluded,
    SmallestChange,
    occlude,
    smallest_change,
)
from tertium.encoders.explanation.words import Word, join_pieces, split_words, without

__all__ = [
    "Attributed",
    "Explains",
    "Explanation",
    "Gradients",
    "Occluded",
    "SmallestChange",
    "Word",
    "integrate_gradients",
    "join_pieces",
    "occlude",
    "smallest_change",
    "split_words",
    "without",
]
