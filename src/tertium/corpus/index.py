"""An index in a folder: texts with their vectors, to be searched and added to."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.append import Addition, append, new_index, writing
from tertium.corpus.hnsw import check_threshold
from tertium.corpus.manifest import Dtype, IndexManifest, check_identity, identify
from tertium.corpus.rows import embed, unit
from tertium.corpus.segments import Snapshot, open_snapshot
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.models.base import Embedder
from tertium.types import EngineName, Hit

__all__ = ["Hit", "Index"]


class Index:
    """Texts and their vectors in a folder.

    Fewer than 20,000 texts are searched exactly, more by a graph (HNSW). Adding is safe: until the
    very end of it, and whatever happens before, others see the index as it was.

    Example:
        >>> import tempfile, tertium
        >>> from tertium.corpus import Index
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> index = Index.build(folder, ["A cat sleeps.", "Stocks fell."], tertium.load())
        >>> index.search("A kitten is napping.", k=1)[0].text
        'A cat sleeps.'
    """

    def __init__(
        self, snapshot: Snapshot, model: Embedder | None, *, engine: EngineName | str
    ) -> None:
        self._snapshot = snapshot
        self._model = model
        self._engine = engine
        if model is not None:
            check_identity(model, self.manifest.model, index=self.folder)

    @classmethod
    def build(
        cls,
        folder: str | os.PathLike[str],
        texts: Iterable[str],
        model: Embedder,
        *,
        ids: Iterable[str] | None = None,
        dtype: Dtype | str = Dtype.FLOAT32,
        vectors: NDArray[Any] | None = None,
        progress: bool | None = None,
    ) -> "Index":
        """Make an index in a new folder.

        Args:
            folder: does not exist yet, is empty, or holds what a killed build has left.
            texts: any number, read once.
            model: makes the vectors, and later those of the queries.
            ids: one for every text (default: numbers from 1 on).
            dtype: ``int8`` stores vectors in a quarter of the space, and a little less exactly.
            vectors: what the model made of the texts, row i of text i, to save encoding; a few are
                encoded again and compared.
            progress: False for no progress on standard error.
        """
        path = Path(folder)
        addition = Addition(texts, model, ids, vectors, progress)
        with new_index(path):
            append(path, IndexManifest(model=identify(model), dtype=Dtype(dtype)), addition)
        return cls.open(path, model)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        model: Embedder | None = None,
        *,
        engine: EngineName | str = EngineName.DEFAULT,
    ) -> "Index":
        """Open an index as it is now.

        Args:
            folder: where it is.
            model: must be the one that built it (default: loaded by its name when needed).
            engine: what runs a model that is loaded by its name.
        """
        return cls(open_snapshot(Path(folder)), model, engine=engine)

    @property
    def folder(self) -> Path:
        """Where the index is."""
        return self._snapshot.folder

    @property
    def manifest(self) -> IndexManifest:
        """What the index holds, and how it was made."""
        return self._snapshot.manifest

    @property
    def model(self) -> Embedder:
        """The model of the index, loaded by its name where none was given."""
        if self._model is None:
            from tertium.engines.loading import load_embedder  # imports torch

            try:
                model = load_embedder(self.manifest.model.name, engine=self._engine)
            except ModelNotFoundError as error:
                raise ModelNotFoundError(
                    f"The model that built {self.folder} is not found under its name: {error} "
                    "Name it with --model."
                ) from error
            check_identity(model, self.manifest.model, index=self.folder)
            self._model = model
        return self._model

    def __len__(self) -> int:
        return len(self._snapshot)

    def add(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[str] | None = None,
        vectors: NDArray[Any] | None = None,
        progress: bool | None = None,
    ) -> int:
        """Add texts, and say how many; takes what :meth:`build` takes.

        Without ids, texts are numbered on: the first one added to 100 texts is 101. Other processes
        that add at the same time take turns.
        """
        addition = Addition(texts, self.model, ids, vectors, progress)
        with writing(self.folder) as manifest:
            check_identity(self.model, manifest.model, index=self.folder)
            after = append(self.folder, manifest, addition)
        self._snapshot = open_snapshot(self.folder)
        return after.count - manifest.count

    def refresh(self) -> None:
        """See what others have added since the index was opened."""
        self._snapshot = open_snapshot(self.folder)

    def search(self, query: str, *, k: int = 10, threshold: float | None = None) -> list[Hit]:
        """The texts nearest to a query, the nearest first; as :meth:`search_many`."""
        return self.search_many([query], k=k, threshold=threshold)[0]

    def search_many(
        self,
        queries: Sequence[str],
        *,
        k: int = 10,
        threshold: float | None = None,
        progress: bool | None = None,
    ) -> list[list[Hit]]:
        """The texts nearest to each query.

        Args:
            queries: any texts.
            k: how many; all of them where there are fewer.
            threshold: leave out what has a smaller cosine.
            progress: False for no progress on standard error.
        """
        if threshold is not None:
            check_threshold(threshold)
        vectors = embed(self.model, queries, progress=progress)
        return self.search_vectors(vectors, k=k, threshold=threshold)

    def search_vectors(
        self, vectors: NDArray[Any], *, k: int = 10, threshold: float | None = None
    ) -> list[list[Hit]]:
        """The texts nearest to each vector of the model of the index."""
        if k < 1:
            raise TertiumError(f"Ask for at least one neighbour, not {k}.")
        width = self.manifest.model.dimension
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise TertiumError(
                f"Vectors of shape {vectors.shape} do not fit {self.folder}, whose model "
                f"{self.manifest.model.name} has a width of {width}."
            )
        found = self._snapshot.search(unit(vectors), k)
        least = -np.inf if threshold is None else threshold
        return [
            [
                Hit(*self._snapshot.entry(position), score)
                for position, score in zip(positions, scores, strict=True)
                if position >= 0 and score >= least
            ]
            for positions, scores in zip(
                found.positions.tolist(), found.scores.tolist(), strict=True
            )
        ]

    def check(self) -> None:
        """Read every file of the index as it is now, and raise where one is damaged.

        What others have added is seen afterwards, as after :meth:`refresh`.
        """
        self._snapshot = open_snapshot(self.folder, contents=True)
