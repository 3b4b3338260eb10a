"""Models that score pairs or triples of texts; the only package that loads backbones."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.models.base import Embedder, Model, TripleScorer
    from tertium.models.careful import CarefulScorer, Caution
    from tertium.models.conditional import ConditionalScorer
    from tertium.models.cross import CrossScorer
    from tertium.models.encoder import Encoder
    from tertium.models.loading import KINDS, load
    from tertium.models.mixture import ConditionalAverage, Ensemble
    from tertium.models.names import NAMES, resolve
    from tertium.models.pair import PairScorer
    from tertium.models.static import StaticEncoder

__all__ = [
    "KINDS",
    "NAMES",
    "CarefulScorer",
    "Caution",
    "ConditionalAverage",
    "ConditionalScorer",
    "CrossScorer",
    "Embedder",
    "Encoder",
    "Ensemble",
    "Model",
    "PairScorer",
    "StaticEncoder",
    "TripleScorer",
    "load",
    "resolve",
]

__getattr__ = lazy(__name__)
