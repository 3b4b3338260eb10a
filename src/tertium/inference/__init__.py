"""Models in use: loading by name or path, nothing that needs gradients."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.inference.average import ConditionalAverage
    from tertium.inference.conditional import ConditionalScorer
    from tertium.inference.ensemble import Ensemble
    from tertium.inference.grading import TripleGrader
    from tertium.inference.loading import load
    from tertium.inference.names import NAMES, resolve
    from tertium.inference.pair import PairScorer

__all__ = [
    "NAMES",
    "ConditionalAverage",
    "ConditionalScorer",
    "Ensemble",
    "PairScorer",
    "TripleGrader",
    "load",
    "resolve",
]

__getattr__ = lazy(
    __name__,
    {
        "average": ["ConditionalAverage"],
        "conditional": ["ConditionalScorer"],
        "ensemble": ["Ensemble"],
        "grading": ["TripleGrader"],
        "loading": ["load"],
        "names": ["NAMES", "resolve"],
        "pair": ["PairScorer"],
    },
)
