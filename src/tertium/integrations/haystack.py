"""Haystack's embedders: one for queries, one for documents."""

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from tertium.integrations.lazy_model import LazyEmbedder

__all__ = ["TertiumDocumentEmbedder", "TertiumTextEmbedder"]


class _Component:
    """What both embedders are told, and how a pipeline writes them down."""

    def __init__(self, model: str = "default", *, engine: str = "default") -> None:
        self.embedder = LazyEmbedder(model, engine=engine)

    def warm_up(self) -> None:
        """Load the model."""
        _ = self.embedder.model

    def to_dict(self) -> dict[str, Any]:
        """The component as a pipeline saves it."""
        saved: dict[str, Any] = default_to_dict(
            self, model=self.embedder.name, engine=self.embedder.engine
        )
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """The component that :meth:`to_dict` wrote down."""
        return default_from_dict(cls, data)


@component
class TertiumTextEmbedder(_Component):
    """The vector of a query."""

    @component.output_types(embedding=list[float])  # type: ignore[untyped-decorator]
    def run(self, text: str) -> dict[str, Any]:
        """Encode one text."""
        return {"embedding": self.embedder.encode([text], normalize=True)[0].tolist()}


@component
class TertiumDocumentEmbedder(_Component):
    """The vectors of documents, from their content."""

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Encode documents; those without content are encoded as empty texts."""
        rows = self.embedder.encode([found.content or "" for found in documents], normalize=True)
        pairs = zip(documents, rows.tolist(), strict=True)
        return {"documents": [replace(found, embedding=row) for found, row in pairs]}
