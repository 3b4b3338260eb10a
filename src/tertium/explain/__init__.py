"""Explanations of scores, word by word: by occlusion and by integrated gradients."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.explain.attention import Focus, attending_part, focus
    from tertium.explain.explanation import Explanation, Method, explain_score
    from tertium.explain.gradients import Gradients
    from tertium.explain.occlusion import SmallestChange
    from tertium.explain.words import Word

__all__ = [
    "Explanation",
    "Focus",
    "Gradients",
    "Method",
    "SmallestChange",
    "Word",
    "attending_part",
    "explain_score",
    "focus",
]

__getattr__ = lazy(__name__)
