"""Which words made a score: by leaving them out, and by integrated gradients."""

from tertium.encoders.explanation.explain import explained
from tertium.encoders.explanation.focus import Focus, focus
from tertium.encoders.explanation.pairs import pair_reading
from tertium.encoders.explanation.readings import Reading
from tertium.encoders.explanation.result import Explanation, Gradients, Method
from tertium.encoders.explanation.smallest import SmallestChange
from tertium.encoders.explanation.triples import triple_reading
from tertium.encoders.explanation.words import Word

__all__ = [
    "Explanation",
    "Focus",
    "Gradients",
    "Method",
    "Reading",
    "SmallestChange",
    "Word",
    "explained",
    "focus",
    "pair_reading",
    "triple_reading",
]
