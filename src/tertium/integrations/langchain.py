"""LangChain's ``Embeddings``."""

from langchain_core.embeddings import Embeddings

from tertium.integrations.lazy_model import LazyEmbedder

__all__ = ["TertiumEmbeddings"]


class TertiumEmbeddings(Embeddings):  # type: ignore[misc]
    """A model for LangChain's vector stores and retrievers.

    Args:
        model: anything that :func:`tertium.load` takes.
        engine: what runs it.
        normalize: scale every vector to length 1.
    """

    def __init__(
        self, model: str = "default", *, engine: str = "default", normalize: bool = True
    ) -> None:
        self.embedder = LazyEmbedder(model, engine=engine)
        self.normalize = normalize

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        rows: list[list[float]] = self.embedder.encode(texts, normalize=self.normalize).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self.embed_documents([text])[0]
