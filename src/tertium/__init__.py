"""How similar are two texts, and in what way?

>>> import tertium
>>> model = tertium.load()                                            # doctest: +SKIP
>>> model.score([("A cat sleeps.", "A kitten is napping.")])          # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tertium.lazy import lazy
from tertium.registration import register_architectures

if TYPE_CHECKING:
    from tertium.corpus import Index
    from tertium.engines.loading import load
    from tertium.errors import TertiumError, TertiumWarning
    from tertium.evaluation import Report
    from tertium.explain import Explanation, explain_score
    from tertium.models import Embedder, Encoder, Ensemble, Model, PairScorer, TripleScorer
    from tertium.models.loading import combine, convert
    from tertium.recipes import evaluate
    from tertium.recipes.fit import fit
    from tertium.recipes.schema import Recipe
    from tertium.recipes.train import train
    from tertium.types import Hit

__version__ = "0.1.0"
__all__ = [
    "Embedder",
    "Encoder",
    "Ensemble",
    "Explanation",
    "Hit",
    "Index",
    "Model",
    "PairScorer",
    "Recipe",
    "Report",
    "TertiumError",
    "TertiumWarning",
    "TripleScorer",
    "__version__",
    "combine",
    "convert",
    "evaluate",
    "explain_score",
    "fit",
    "load",
    "train",
]

__getattr__ = lazy(__name__)

register_architectures()


def __dir__() -> list[str]:
    return sorted(__all__)
