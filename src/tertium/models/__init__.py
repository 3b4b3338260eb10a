"""Models: what scores pairs or triples of texts, and the one place where backbones are loaded."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.models.average import ConditionalAverage
    from tertium.models.conditional import ConditionalScorer
    from tertium.models.encoder import Encoder
    from tertium.models.ensemble import Ensemble
    from tertium.models.grading import TripleGrader
    from tertium.models.loading import load
    from tertium.models.names import NAMES, resolve
    from tertium.models.pair import PairScorer
    from tertium.models.static import ENCODERS, StaticEncoder

__all__ = [
    "ENCODERS",
    "NAMES",
    "ConditionalAverage",
    "ConditionalScorer",
    "Encoder",
    "Ensemble",
    "PairScorer",
    "StaticEncoder",
    "TripleGrader",
    "load",
    "resolve",
]

__getattr__ = lazy(
    __name__,
    {
        "average": ["ConditionalAverage"],
        "conditional": ["ConditionalScorer"],
        "encoder": ["Encoder"],
        "ensemble": ["Ensemble"],
        "grading": ["TripleGrader"],
        "loading": ["load"],
        "names": ["NAMES", "resolve"],
        "pair": ["PairScorer"],
        "static": ["ENCODERS", "StaticEncoder"],
    },
)
