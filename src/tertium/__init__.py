"""How alike are these two texts, and in which respect?

>>> import tertium
>>> model = tertium.load()                                            # doctest: +SKIP
>>> model.score([("A cat sleeps.", "A kitten is napping.")])          # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from tertium.lazy import lazy
from tertium.registration import register_architectures

if TYPE_CHECKING:
    from tertium.engines.loading import load
    from tertium.errors import TertiumError
    from tertium.evaluation import Report
    from tertium.explain import explain_score
    from tertium.models import Encoder
    from tertium.recipes import evaluate
    from tertium.recipes.schema import Recipe
    from tertium.recipes.train import train

__version__ = "0.1.0"
__all__ = [
    "Encoder",
    "Recipe",
    "Report",
    "TertiumError",
    "__version__",
    "evaluate",
    "explain_score",
    "load",
    "train",
]

__getattr__ = lazy(
    __name__,
    {
        "engines.loading": ["load"],
        "explain": ["explain_score"],
        "models": ["Encoder"],
        "errors": ["TertiumError"],
        "evaluation": ["Report"],
        "recipes": ["evaluate"],
        "recipes.schema": ["Recipe"],
        "recipes.train": ["train"],
    },
)

register_architectures()


def __dir__() -> list[str]:
    return sorted(__all__)
