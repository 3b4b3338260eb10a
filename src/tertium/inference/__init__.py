"""Models in use: loading by name or path, nothing that needs gradients."""

from tertium.inference.average import ConditionalAverage
from tertium.inference.conditional import ConditionalScorer
from tertium.inference.ensemble import Ensemble
from tertium.inference.grading import TripleGrader
from tertium.inference.loading import NAMES, load, resolve
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
