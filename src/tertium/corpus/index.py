"""An index in a folder: texts with their vectors, to be searched and changed."""

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.hnsw import check_threshold
from tertium.corpus.identity import check_identity, identify, retrieval_prompts
from tertium.corpus.rows import embed, unit
from tertium.corpus.snapshot import Place, Snapshot, open_snapshot
from tertium.corpus.store import Dtype, Entry, IndexManifest
from tertium.corpus.write import Addition, Updated, Writer, new_index, writing
from tertium.errors import ModelNotFoundError, TertiumError, TertiumWarning
from tertium.models.base import Embedder, Model
from tertium.types import EngineName, Hit

__all__ = ["Hit", "Index"]

_RERANKED = 50  # hits that another model puts in order


class Index:
    """Texts and their vectors in a folder.

    Fewer than 20,000 texts are searched exactly, more by a graph (HNSW). Changes are safe: until
    the very end of one, and whatever happens before, others see the index as it was. An open index
    stays what it was when it was opened; :meth:`refresh` sees what has changed since.

    Example:
        >>> import tempfile, tertium
        >>> from tertium.corpus import Index
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> index = Index.build(folder, ["A cat sleeps.", "Stocks fell."], tertium.load())
        >>> index.search("A kitten is napping.", top_k=1)[0].text
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
        columns: Iterable[Mapping[str, Any]] | None = None,
        dtype: Dtype | str = Dtype.FLOAT32,
        vectors: NDArray[Any] | None = None,
        passages: bool = True,
        progress: bool | None = None,
    ) -> "Index":
        """Make an index in a new folder.

        Args:
            folder: does not exist yet, is empty, or holds what a killed build has left.
            texts: any number, read once.
            model: makes the vectors, and later those of the queries.
            ids: one for every text (default: numbers from 1 on).
            columns: further values of every text by name, to filter by: numbers, text, or None.
            dtype: ``int8`` stores vectors in a quarter of the space, and a little less exactly.
            vectors: what the model made of the texts, row i of text i, to save encoding; a few are
                encoded again and compared.
            passages: cut texts that are longer than the model reads into passages, each with a
                vector of its own; if not, only their beginning is read.
            progress: False for no progress on standard error.
        """
        path = Path(folder)
        manifest = IndexManifest(
            model=identify(model), dtype=Dtype(dtype), prompts=retrieval_prompts(model)
        )
        with new_index(path, manifest) as writer:
            writer.add(Addition(texts, model, ids, columns, vectors, passages, progress))
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
    def size(self) -> int:
        """Bytes on the disk."""
        files = self.manifest.files().values()
        return self._snapshot.store.size + sum(file.size for file in files)

    @property
    def model(self) -> Embedder:
        """The model of the index, loaded by its name where none was given."""
        if self._model is None:
            from tertium.engines.loading import load_embedder  # imports torch

            try:
                known = self.manifest.model
                model = load_embedder(
                    known.name, engine=self._engine, truncate_dim=known.truncate_dim
                )
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

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, where: str | None = None) -> Iterator[Entry]:
        """All texts with their ids and columns, or those that meet a filter."""
        return self._snapshot.entries(where)

    def get(self, name: str) -> Entry | None:
        """The text of an id, with its columns; None if there is none."""
        return self._snapshot.store.by_ids(self.manifest, [name]).get(name)

    def vectors(self, entry: Entry) -> NDArray[np.float32]:
        """The unit vectors of a text: one, or one for each of its passages."""
        return self._snapshot.rows.block(entry.first, entry.first + entry.passages)

    def column_types(self, column: str) -> set[str]:
        """What kinds of values a column has: ``integer``, ``real``, ``text``."""
        return self._snapshot.store.column_types(column)

    def add(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[str] | None = None,
        columns: Iterable[Mapping[str, Any]] | None = None,
        vectors: NDArray[Any] | None = None,
        passages: bool = True,
        progress: bool | None = None,
    ) -> int:
        """Add texts, and say how many; takes what :meth:`build` takes.

        Without ids, texts are numbered on: the first one after 100 texts is 101, also if some of
        them were deleted. Processes that write at the same time take turns.
        """
        addition = Addition(texts, self.model, ids, columns, vectors, passages, progress)
        with self._changing(encodes=True) as writer:
            return writer.add(addition)

    def update(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[str],
        columns: Iterable[Mapping[str, Any]] | None = None,
        passages: bool = True,
        progress: bool | None = None,
    ) -> Updated:
        """Replace texts by their ids, and add those whose ids are new.

        Only texts that changed are encoded. Columns that are not given stay; None empties one.
        """
        addition = Addition(texts, self.model, ids, columns, None, passages, progress)
        with self._changing(encodes=True) as writer:
            return writer.update(addition)

    def set_columns(self, values: Mapping[str, Any], *, where: str) -> int:
        """Write columns of all texts that meet a filter, and say how many these are."""
        known = {name.lower() for name in self.manifest.columns}
        for name in values:
            if name.strip().lower() in {"id", "text"} - known:  # filters would find it instead
                raise TertiumError(
                    f"The {name} of a text is not a further column. Texts are replaced by their "
                    "ids: tertium index update INDEX FILE"
                )
        with self._changing() as writer:
            return writer.set_columns(values, where=where)

    def delete(self, ids: Iterable[str] | None = None, *, where: str | None = None) -> int:
        """Delete texts by their ids or by a filter, and say how many these are.

        An id that is not there is no error: a warning counts them. The space is kept until
        :meth:`compact`.
        """
        if (ids is None) == (where is None):
            raise TertiumError("Say which texts: by their ids, or by a filter.")
        wanted = None if ids is None else list(dict.fromkeys(ids))
        with self._changing() as writer:
            gone = writer.delete(wanted, where=where)
        missing = [] if wanted is None else sorted(set(wanted) - set(gone))
        if missing:
            few = ", ".join(repr(name) for name in missing[:3])
            more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
            verb = "id is" if len(missing) == 1 else "ids are"
            warnings.warn(
                f"{len(missing):,} {verb} not in {self.folder}: {few}{more}.",
                TertiumWarning,
                stacklevel=2,
            )
        return len(gone)

    def compact(self, *, progress: bool | None = None) -> int:
        """Give back the space of deleted texts, and say how many bytes that is."""
        with self._changing() as writer:
            return writer.compact(progress=progress)

    @contextlib.contextmanager
    def _changing(self, *, encodes: bool = False) -> Iterator[Writer]:
        """Have the folder to oneself, and see afterwards what has changed."""
        with writing(self.folder) as writer:
            if encodes:
                check_identity(self.model, writer.committed.model, index=self.folder)
            yield writer
        self.refresh()

    def refresh(self) -> None:
        """See what others have changed since the index was opened."""
        store = self._snapshot.store
        if not store.is_current or store.begin().generation != self.manifest.generation:
            self._snapshot = open_snapshot(self.folder)

    def search(self, query: str, **options: Any) -> list[Hit]:
        """The texts nearest to a query, the nearest first; options of :meth:`search_many`."""
        return self.search_many([query], **options)[0]

    def search_many(
        self,
        queries: Sequence[str],
        *,
        top_k: int = 10,
        threshold: float | None = None,
        where: str | None = None,
        hybrid: bool = False,
        rerank: Model | None = None,
        on: str | None = None,
        rerank_top: int = _RERANKED,
        progress: bool | None = None,
    ) -> list[list[Hit]]:
        """The texts nearest to each query.

        Args:
            queries: any texts.
            top_k: how many; all of them where there are fewer.
            threshold: leave out what has a smaller cosine.
            where: only texts that meet this filter, such as ``year >= 2020 AND lang = 'en'``.
            hybrid: rank by vectors and by words (BM25) together, by reciprocal rank fusion.
            rerank: a model that puts the first hits in order, by its own scores.
            on: the respect in which it compares them, for a model that takes conditions.
            rerank_top: how many hits it is given.
            progress: False for no progress on standard error.
        """
        prompt = self.manifest.prompts.get("query")
        vectors = embed(self.model, queries, prompt=prompt, progress=progress)
        wide = top_k if rerank is None else max(top_k, rerank_top)
        words = queries if hybrid else None
        found = self.search_vectors(
            vectors, top_k=wide, threshold=threshold, where=where, words=words
        )
        if rerank is None:
            if on is not None:
                raise TertiumError("A condition needs a model that takes it: rerank.")
            return found
        return [
            reranked(rerank, query, hits, on=on)[:top_k]
            for query, hits in zip(queries, found, strict=True)
        ]

    def search_vectors(
        self,
        vectors: NDArray[Any],
        *,
        top_k: int = 10,
        threshold: float | None = None,
        where: str | None = None,
        words: Sequence[str] | None = None,
    ) -> list[list[Hit]]:
        """The texts nearest to each vector of the model of the index.

        Args:
            vectors: one a row.
            top_k: how many; all of them where there are fewer.
            threshold: leave out what has a smaller cosine.
            where: only texts that meet this filter.
            words: the texts of the queries, to rank by their words as well.
        """
        if threshold is not None:
            check_threshold(threshold)
        if top_k < 1:
            raise TertiumError(f"Ask for at least one neighbour, not {top_k}.")
        width = self.manifest.model.dimension
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise TertiumError(
                f"Vectors of shape {vectors.shape} do not fit {self.folder}, whose model "
                f"{self.manifest.model.name} has a width of {width}."
            )
        queries, snapshot = unit(vectors), self._snapshot
        if words is None:
            found = snapshot.search(queries, top_k, where=where)
        else:
            found = snapshot.search_words(queries, words, top_k, where=where)
        least = -np.inf if threshold is None else threshold
        return [[self._hit(place) for place in places if place.cosine >= least] for places in found]

    def _hit(self, place: Place) -> Hit:
        entry = self._snapshot.entry(place.number)
        quoted = None if entry.cuts is None else entry.passage(place.row)
        return Hit(entry.id, entry.text, place.score, place.cosine, entry.columns, quoted)

    def check(self) -> None:
        """Read the index as it is now, and raise where it is damaged.

        What others have changed is seen afterwards, as after :meth:`refresh`.
        """
        self._snapshot = open_snapshot(self.folder, contents=True)


def reranked(model: Model, query: str, hits: Sequence[Hit], *, on: str | None = None) -> list[Hit]:
    """Hits in the order of a model's scores of their texts, or best passages, with the query."""
    if on is not None and not model.takes_conditions:
        raise TertiumError(f"{model.name} does not take conditions: rerank with one that does.")
    texts = [hit.text if hit.passage is None else hit.passage for hit in hits]
    ranked = model.rank(query, texts, condition=on)
    return [replace(hits[int(each.id)], score=each.score) for each in ranked]
