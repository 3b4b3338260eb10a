"""LlamaIndex's ``BaseEmbedding``."""

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from tertium.integrations.lazy_model import LazyEmbedder

__all__ = ["TertiumEmbedding"]


class TertiumEmbedding(BaseEmbedding):  # type: ignore[misc]
    """A model for LlamaIndex: ``Settings.embed_model = TertiumEmbedding()``.

    Args:
        model_name: anything that :func:`tertium.load` takes.
        engine: what runs it.
        options: of LlamaIndex, such as ``embed_batch_size``.
    """

    _embedder: LazyEmbedder = PrivateAttr()

    def __init__(
        self, model_name: str = "default", *, engine: str = "default", **options: Any
    ) -> None:
        super().__init__(model_name=model_name, **options)
        self._embedder = LazyEmbedder(model_name, engine=engine)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._embedder.encode(texts, normalize=True).tolist()
        return rows

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
