"""The models of a worker: loaded, described, tokenized for, and asked."""

import contextlib
import math
import pkgutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tertium.corpus import Index
from tertium.corpus.manifest import MANIFEST, same_model
from tertium.corpus.rows import unit
from tertium.errors import TertiumError, TertiumWarning
from tertium.explain.words import split_words
from tertium.models.base import Embedder, Model, TripleScorer
from tertium.models.tokens import TokenizationStats, beginning
from tertium.serve.batching import BatchQueue, Matrix, QueuedRequest, Tokenized
from tertium.serve.errors import APIError, where
from tertium.serve.explaining import Make, explain, explains, scorings
from tertium.serve.protocol import Message, Spec
from tertium.types import TextTriple

if TYPE_CHECKING:
    from tertium.models import Encoder

__all__ = ["HostedIndex", "ModelHost", "TextReader", "TripleReader", "unsearchable", "warm"]

_MOST = 131_072  # characters of a text for a model that has no limit of its own


class TextReader:
    """Texts to vectors. A single encoder is given the tokens that were counted, and no text twice.

    Args:
        model: anything with ``encode``.
    """

    def __init__(self, model: Embedder) -> None:
        self.model = model
        single = len(model.encoders) == 1 and bool(model.parts)
        self._encoder: Encoder | None = model.encoder if single else None
        self._count = _counter(model)
        self._most = _characters(model)

    def size(self, content: str) -> int:
        """Characters that are read."""
        return min(len(content), self._most)

    def read(self, contents: Sequence[str]) -> list[Tokenized]:
        """Tokens of every text."""
        texts = [beginning(text, self._most) for text in contents]
        short = [len(text) < len(whole) for text, whole in zip(texts, contents, strict=True)]
        if self._encoder is None:
            return [Tokenized(*each) for each in zip(texts, self._count(texts), short, strict=True)]
        seen = TokenizationStats()
        rows = self._encoder.tokenize(texts, truncation=seen)
        full = [len(ids) >= self._encoder.max_length for ids in rows]  # and longer, perhaps
        sure = seen.cut in (0, sum(full))
        found = []
        for text, cut, ids, filled in zip(texts, short, rows, full, strict=True):
            longer = filled and (seen.cut > 0 if sure else self._is_cut(text))
            found.append(Tokenized(text, len(ids), cut or longer, ids))
        return found

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """A vector for each item."""
        if self._encoder is not None:
            return self._encoder.encode_ids([item.ids or [] for item in items])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            texts = [cast(str, item.key) for item in items]
            return np.asarray(self.model.encode(texts, progress=False), np.float32)

    def _is_cut(self, text: str) -> bool:
        """Read a text that fills the model again, by itself: others are longer than the model."""
        assert self._encoder is not None
        alone = TokenizationStats()
        self._encoder.tokenize([text], truncation=alone)
        return bool(alone.cut)


class TripleReader:
    """Two sentences and a condition to scores. Counts tokens of each text apart from the others.

    Args:
        model: anything that scores triples.
    """

    def __init__(self, model: TripleScorer) -> None:
        self.model = model
        self._count = _counter(model)
        self._most = _characters(model)

    def size(self, content: Sequence[str]) -> int:
        """Characters that are read of all three."""
        return sum(min(len(text), self._most) for text in content)

    def read(self, contents: Sequence[Sequence[str]]) -> list[Tokenized]:
        """Tokens of every triple."""
        triples = [tuple(beginning(text, self._most) for text in triple) for triple in contents]
        counts = self._count([text for triple in triples for text in triple])
        sums = np.asarray(counts, int).reshape(-1, 3).sum(axis=1).tolist()
        return [Tokenized(*each) for each in zip(triples, sums, strict=True)]

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """A score for each item."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            triples = [cast(TextTriple, item.key) for item in items]
            return np.asarray(self.model.score(triples, progress=False), np.float32)


def _characters(model: Model) -> int:
    """How much of a text is read, whatever follows."""
    return max((min(encoder.max_characters, _MOST) for encoder in model.encoders), default=_MOST)


def _counter(model: Model) -> Callable[[Sequence[str]], list[int]]:
    """Counts tokens of texts; words, for a model of which nothing is known."""
    if model.encoders:
        return model.encoders[0].count_tokens
    return lambda texts: [len(text.split()) + 2 for text in texts]


class _Rebuilt(TertiumError):
    """The index is another one, which has to be opened again."""


class HostedIndex:
    """The index of a worker: texts that are added are found, and damage disables only the search.

    Args:
        folder: where it is.
        open_index: opens it, with its model.
        retry: seconds between two looks at a folder that is damaged.

    Attributes:
        fault: why it cannot be searched, if it cannot.
    """

    def __init__(self, folder: Path, open_index: Callable[[Path], Index], *, retry: float) -> None:
        self._folder = folder
        self._open_index = open_index
        self._retry = retry
        self._index: Index | None = None
        self._changed = 0
        self._seen: object = None  # what the folder held when it failed
        self._looked = -math.inf
        self.fault: str | None = None
        self.open()

    @property
    def model(self) -> Embedder | None:
        """Makes the vectors of queries."""
        return None if self._index is None else self._index.model

    def about(self) -> dict[str, Any]:
        """What can be searched, or why nothing can."""
        index = self._index
        if index is None:
            return {"index": None, "fault": self.fault}
        name, dimension = index.manifest.model.name, index.model.dimension
        return {"index": {"name": name, "texts": len(index), "dimension": dimension}, "fault": None}

    def open(self) -> None:
        """Open it, or note why that fails."""
        try:
            self._changed = _changed(self._folder)
            self._index = self._open_index(self._folder)
            self.fault = None
        except Exception as error:
            self._give_up(error)

    def is_worth_opening(self, now: float) -> bool:
        """Whether it failed, and its folder now holds something else.

        Args:
            now: seconds by any clock; the folder is looked at no more often than ``retry``.
        """
        if self.fault is None or now - self._looked < self._retry:
            return False
        self._looked = now
        return _contents(self._folder) != self._seen

    def search(
        self, rows: Matrix, *, k: int, threshold: float | None
    ) -> list[list[dict[str, Any]]]:
        """The texts that are nearest to each row, best first."""
        if self._index is None:
            raise unsearchable()
        try:
            self._refresh(self._index)
            found = self._index.search_vectors(rows, k=k, threshold=threshold)
        except Exception as error:
            self._give_up(error)
            raise unsearchable() from None
        return [[{"id": h.id, "text": h.text, "score": float(h.score)} for h in x] for x in found]

    def _refresh(self, index: Index) -> None:
        changed = _changed(index.folder)
        if changed == self._changed:
            return
        before = index.manifest.model.fingerprint
        index.refresh()
        if index.manifest.model.fingerprint != before:
            raise _Rebuilt(f"{index.folder} was built again, with another model.")
        self._changed = changed

    def _give_up(self, error: Exception) -> None:
        self._index = None
        self._seen = None if isinstance(error, _Rebuilt) else _contents(self._folder)
        known = isinstance(error, TertiumError | OSError)
        self.fault = str(error) if known else where(error)


def unsearchable() -> APIError:
    """The answer to a search while the index cannot be searched."""
    return APIError(503, "index_unavailable", "The index cannot be searched at the moment.")


def _changed(folder: Path) -> int:
    return (folder / MANIFEST).stat().st_mtime_ns


def _contents(folder: Path) -> object:
    """The files of a folder with their sizes and times; another folder has others."""
    found = []
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError):
            about = path.stat()
            found.append((str(path), about.st_size, about.st_mtime_ns, about.st_ino))
    return found


class ModelHost:
    """What a worker can do.

    Attributes:
        queues: by kind of request; kinds that share a model share a queue.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._settings = settings = spec.settings
        self._model = self._load(settings.model)
        if self._model.takes_conditions:
            raise TertiumError(
                f"{settings.model} compares texts under a condition and gives no vectors: name it "
                "with --conditional-model, and with --model an encoder such as default."
            )
        self._conditional = self._load_conditional()
        texts = self._queue(TextReader(self._model))
        self.queues: dict[str, BatchQueue] = {"embed": texts, "score": texts}
        if self._conditional is not None:
            self.queues["grade"] = self._queue(TripleReader(self._conditional))
        self._index: HostedIndex | None = None
        if settings.index is not None:
            retry = settings.index_retry
            self._index = HostedIndex(settings.index, self._open_index, retry=retry)
            self._queue_searches()

    def about(self) -> dict[str, Any]:
        """What the server tells of the models."""
        model, conditional = self._model, self._conditional
        found: dict[str, Any] = {
            "model": {
                "name": model.name,
                "dimension": int(model.dimension),
                "scale": [float(end) for end in model.scale],
                "explains": explains(model),
            },
            "conditional": None,
            **self.about_index(),
        }
        if conditional is not None:
            scale = [float(end) for end in conditional.scale]
            able = explains(conditional)
            found["conditional"] = {"name": conditional.name, "scale": scale, "explains": able}
        return found

    @property
    def index_fault(self) -> str | None:
        """Why an index that should be searched cannot be."""
        return None if self._index is None else self._index.fault

    def about_index(self) -> dict[str, Any]:
        """What can be searched, or why nothing can."""
        return {"index": None, "fault": None} if self._index is None else self._index.about()

    def look_at_index(self, now: float) -> None:
        """Open an index that could not be opened or searched, once its folder has changed."""
        if self._index is None or not self._index.is_worth_opening(now):
            return
        queue = self.queues.get("search")
        if queue is None or queue is self.queues["embed"] or not queue.busy:
            self._index.open()
            self._queue_searches()

    def finish(self, task: QueuedRequest) -> Message:
        """The answer to a task whose rows are all there."""
        rows = task.rows
        assert rows is not None
        kind, head = task.head["kind"], task.head
        counts = {
            "tokens": sum(item.tokens for item in task.items),
            "cut": sum(item.cut for item in task.items),
        }
        if kind == "embed":
            vectors = unit(rows[:, : head["dimensions"]])
            return {**counts, "shape": list(vectors.shape)}, vectors.astype("<f4").tobytes()
        if kind == "score":
            rows = self._model.score_vectors(rows[0::2], rows[1::2])
        elif kind == "search":
            assert self._index is not None
            found = self._index.search(rows, k=head["k"], threshold=head["threshold"])
            return {**counts, "results": found}, b""
        return {**counts, "scores": rows.tolist()}, b""

    def explain(self, task: QueuedRequest) -> tuple[int, Make]:
        """How many tokens an explanation takes, and how it is made; too long ones are refused."""
        a, b, on = task.contents
        cost = self._check_explained(a, b, on)
        model = self._model if on is None else self._conditional

        def make(pause: Callable[[], None]) -> Message:
            return {"explanation": explain(model, a, b, on, pause=pause)}, b""

        return cost, make

    def _check_explained(self, a: str, b: str, on: str | None) -> int:
        """Tokens of all scorings together: the texts are scored once for each word, and more."""
        texts = [text for text in (a, b, on) if text is not None]
        characters, most = sum(map(len, texts)), self._settings.max_explained_characters
        if characters > most:
            raise APIError(
                413,
                "too_many_characters",
                f"{characters:,} characters are more than the {most:,} that one explanation may "
                "have. Send shorter texts.",
            )
        words = [len(split_words(text)) for text in texts]
        if sum(words) > self._settings.max_explained_words:
            raise APIError(
                413,
                "too_many_words",
                f"{sum(words):,} words and signs are more than the "
                f"{self._settings.max_explained_words:,} that one explanation may have. Send "
                "shorter texts.",
            )
        if not any(words[:2]) or (on is not None and not all(text.strip() for text in texts)):
            raise APIError(400, "no_words", "There is nothing to explain: a text has no words.")
        queue = self.queues["score" if on is None else "grade"]
        return queue.check([a, b] if on is None else [(a, b, on)], times=scorings(sum(words)))

    def _queue(self, reader: TextReader | TripleReader) -> BatchQueue:
        return BatchQueue(
            reader, budget=self._settings.batch_tokens, most=self._settings.max_tokens
        )

    def _load(self, name: str, *, engine: str | None = None) -> Any:
        load, engine = pkgutil.resolve_name(self._spec.loader), engine or self._settings.engine
        threads = {} if engine == "torch" else {"threads": self._spec.threads}
        return load(name, engine=engine, **threads)

    def _load_conditional(self) -> Any:
        name = self._settings.conditional_model
        if name == "none":
            return None
        # Vectors that do not look at other words cannot take a condition.
        found = self._load(name, engine="torch" if self._settings.engine == "static" else None)
        if not found.takes_conditions:
            raise TertiumError(
                f"The model '{name}' does not take conditions. 'conditional' does, and so do "
                "models of recipes such as seaver-minilm; --conditional-model names them."
            )
        return found

    def _open_index(self, folder: Path) -> Index:
        """With the model that is served, if it built the index; else with the one that did."""
        known = Index.open(folder).manifest.model
        if same_model(self._model, known):
            return Index.open(folder, self._model)
        return Index.open(folder, self._load(known.name))

    def _queue_searches(self) -> None:
        """Searches wait with other texts for the served model, or else for that of the index."""
        assert self._index is not None
        model = self._index.model
        if model is not None:
            own = model is self._model
            self.queues["search"] = self.queues["embed"] if own else self._queue(TextReader(model))


def warm(host: ModelHost) -> None:
    """Run every queue once, so that the first request does not wait for what is made lazily."""
    for kind, queue in host.queues.items():
        content: Any = ("A cat sleeps.", "A kitten naps.", "the animal")
        task = QueuedRequest({"id": 0, "kind": kind}, [content if kind == "grade" else content[0]])
        queue.admit(task)
        queue.run(queue.gather(_raise))
        if not np.isfinite(task.rows if task.rows is not None else 0).all():
            raise TertiumError("The model gives numbers that are not finite.")


def _raise(task: QueuedRequest, error: Exception) -> None:
    raise error
