"""A model by its name, loaded when it is first used."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tertium.models import Embedder

__all__ = ["LazyEmbedder"]


class LazyEmbedder:
    """Vectors of a model that is loaded when it is first needed, and never pickled.

    Args:
        name: anything that :func:`tertium.load` takes.
        engine: what runs it.
    """

    def __init__(self, name: str = "default", *, engine: str = "default") -> None:
        self.name = name
        self.engine = engine

    @cached_property
    def model(self) -> "Embedder":
        """The model, which must give vectors."""
        import tertium
        from tertium.models.loading import as_embedder

        return as_embedder(tertium.load(self.name, engine=self.engine))

    def encode(self, texts: list[str], **options: Any) -> NDArray[np.float32]:
        """One row for each text; see ``Encoder.encode``."""
        rows: NDArray[np.float32] = self.model.encode(texts, progress=False, **options)
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "engine": self.engine}
