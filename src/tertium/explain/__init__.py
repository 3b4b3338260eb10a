"""Which words made a score: by leaving them out, and by integrated gradients."""

from tertium.explain.explain import explained
from tertium.explain.focus import Focus, focus
from tertium.explain.occlusion import SmallestChange
from tertium.explain.pairs import pair_reading
from tertium.explain.readings import Reading
from tertium.explain.result import Explanation, Gradients, Method
from tertium.explain.triples import triple_reading
from tertium.explain.words import Word

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
