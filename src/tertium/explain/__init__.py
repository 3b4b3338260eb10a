"""Which words made a score: by leaving them out, and by integrated gradients."""

from tertium.explain.explain import explain_score
from tertium.explain.focus import Focus, focus, focus_of
from tertium.explain.occlusion import SmallestChange
from tertium.explain.readings import Reading
from tertium.explain.result import Explanation, Gradients, Method
from tertium.explain.words import Word

__all__ = [
    "Explanation",
    "Focus",
    "Gradients",
    "Method",
    "Reading",
    "SmallestChange",
    "Word",
    "explain_score",
    "focus",
    "focus_of",
]
