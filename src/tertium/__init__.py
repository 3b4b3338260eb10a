"""How alike are these two texts, and in which respect?

>>> import tertium
>>> model = tertium.load()                                            # doctest: +SKIP
>>> model.score([("A cat sleeps.", "A kitten is napping.")])          # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tertium.registration import register_architectures

if TYPE_CHECKING:
    from tertium.encoders import Encoder
    from tertium.errors import TertiumError
    from tertium.evaluation import Report
    from tertium.inference import load
    from tertium.recipes import evaluate

__version__ = "0.1.0"
__all__ = ["Encoder", "Report", "TertiumError", "__version__", "evaluate", "load"]

_HOMES = {
    "Encoder": "tertium.encoders",
    "Report": "tertium.evaluation",
    "TertiumError": "tertium.errors",
    "evaluate": "tertium.recipes",
    "load": "tertium.inference",
}

register_architectures()


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import tertium`` stays instant."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tertium' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
