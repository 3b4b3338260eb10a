"""The models that a worker has in memory: loaded on demand, up to a maximum."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from tertium.corpus.rows import unit
from tertium.errors import TertiumError
from tertium.explain.words import split_words
from tertium.models.base import Embedder, Model
from tertium.models.passages import Alignment
from tertium.serve.batching import BatchQueue, Matrix, QueuedRequest
from tertium.serve.errors import APIError, where
from tertium.serve.explaining import Explanations, Make, explain, explains, scorings
from tertium.serve.protocol import Message
from tertium.serve.readers import JointReader, TextReader
from tertium.serve.settings import Settings

__all__ = ["HostedModel", "LoadedModels"]

Refuse = Callable[[QueuedRequest, Exception], None]


class HostedModel:
    """A loaded model and its queues; it is warmed up on construction.

    Args:
        name: its name in requests and responses.
        model: the loaded model.
        settings: limits of requests.

    Attributes:
        batches: queue of texts or triples; of pairs, if the model has no vectors.
        pairs: queue of pairs, for a model that reads them together.
        explanations: queue of explanations.
        pinned: whether it must stay loaded because an index is searched with it.
    """

    def __init__(self, name: str, model: Model, settings: Settings) -> None:
        self.name = name
        self.model = model
        self.pinned = False
        self._settings = settings
        limits = {"budget": settings.batch_tokens, "most": settings.max_tokens}
        embedder = model.vector_model
        reader = TextReader(embedder) if isinstance(embedder, Embedder) else JointReader(model)
        self.batches = BatchQueue(reader, **limits)
        self.pairs = BatchQueue(JointReader(model), **limits) if model.reads_together else None
        self.explanations = Explanations(self._explain)
        self._warm()

    @property
    def busy(self) -> bool:
        """Whether anything is waiting."""
        return bool(self.queues) or self.explanations.busy

    @property
    def queues(self) -> dict[str, BatchQueue]:
        """The queues that are not empty, by name."""
        known = {"batches": self.batches, "pairs": self.pairs}
        return {name: queue for name, queue in known.items() if queue is not None and queue.busy}

    def about(self) -> dict[str, Any]:
        """Its description in ``/v1/models``."""
        return {
            "scale": [float(end) for end in self.model.scale],
            "dimension": None if self._embedder is None else int(self._embedder.dimension),
            "explains": explains(self.model),
            "decision": None if self.model.decision is None else self.model.decision.to_json(),
        }

    def admit(self, task: QueuedRequest) -> None:
        """Enqueue a request; raises if it is refused."""
        if task.head["kind"] == "explain":
            self.explanations.admit(task)
            return
        if task.head["kind"] == "score":
            pairs = list(zip(task.contents[0::2], task.contents[1::2], strict=True))
            alignment = task.alignment = self.model.align(pairs)
            if self.pairs is not None:
                task.contents = pairs if alignment is None else list(alignment.items())
                self.pairs.admit(task)
                return
            task.contents = task.contents if alignment is None else alignment.parts
        elif self.model.takes_conditions and task.head["kind"] != "embed":
            task.alignment = self.model.align(task.contents)
            if task.alignment is not None:
                task.contents = list(task.alignment.items())
        if task.head["kind"] == "embed" and self._embedder is None:
            message = f"{self.name} reads both texts together and has no embeddings."
            raise APIError(400, "no_embeddings", message, param="model")
        wanted = task.head.get("dimensions")
        width = 0 if self._embedder is None else self._embedder.dimension
        if wanted is not None and wanted > width:
            message = f"{self.name} has {width} dimensions, not {wanted}."
            raise APIError(400, "too_many_dimensions", message, param="dimensions")
        self.batches.admit(task)

    def finish(self, task: QueuedRequest) -> Message:
        """The answer to a request with all results."""
        rows, kind = task.rows, task.head["kind"]
        assert rows is not None
        if kind == "embed":
            vectors = unit(rows[:, : task.head["dimensions"]])
            return {**task.counts, "shape": list(vectors.shape)}, vectors.astype("<f4").tobytes()
        if kind == "score" and self.pairs is None:
            rows = self._score_vectors(rows, task.alignment)
        elif task.alignment is not None:
            rows = task.alignment.join(rows)
        rows = rows.clip(*self.model.scale)
        scale = [float(end) for end in self.model.scale]
        decision = self.model.decision
        said = None if decision is None else [each.to_json() for each in decision.verdicts(rows)]
        about = None if decision is None else decision.to_json()
        scores = {"scores": rows.tolist(), "scale": scale}
        return {**task.counts, **scores, "decisions": said, "decision": about}, b""

    def _score_vectors(self, rows: Matrix, alignment: Alignment | None) -> Matrix:
        """Scores of pairs from the vectors of their texts, or of the passages of these."""
        model = self.model
        assert isinstance(model, Embedder)
        if alignment is None:
            return model.score_vectors(rows[0::2], rows[1::2])
        return alignment.score_vectors(rows, lambda _, *sides: model.grade_vectors(*sides))

    @property
    def _embedder(self) -> Embedder | None:
        inside = self.model.vector_model
        return inside if isinstance(inside, Embedder) else None

    def _warm(self) -> None:
        """Run it once, so that the first request does not wait for lazy initialisation."""
        triple = ("A cat sleeps.", "A cat naps.", "the animal")  # near enough to ask a judge, too
        item: Any = triple[:2] if self._embedder is None else triple[0]
        tried = [(self.batches, triple if self.model.takes_conditions else item)]
        tried += [] if self.pairs is None else [(self.pairs, triple[:2])]
        for queue, content in tried:
            queue.admit(QueuedRequest({"id": 0}, [content]))
            try:
                queue.run(queue.gather(_raise))
            except APIError as error:
                raise TertiumError(f"The model '{self.name}' cannot be served: {error}") from error

    def _explain(self, task: QueuedRequest) -> tuple[int, Make]:
        """The cost of an explanation in tokens, and how to compute it; raises if it is too long."""
        a, b, on = task.contents
        if not explains(self.model):
            message = f"{self.name} cannot explain its scores."
            raise APIError(501, "no_explanation", message)
        cost = self._check_explained(a, b, on)

        def make(pause: Callable[[], None]) -> Message:
            return {"explanation": explain(self.model, a, b, on, pause=pause)}, b""

        return cost, make

    def _check_explained(self, a: str, b: str, on: str | None) -> int:
        """Tokens of all scorings: the texts are scored once per word, and more."""
        texts = [text for text in (a, b, on) if text is not None]
        characters, most = sum(map(len, texts)), self._settings.max_explained_characters
        if characters > most:
            raise APIError(
                413,
                "too_many_characters",
                f"The texts have {characters:,} characters; an explanation may have at most "
                f"{most:,}. Send shorter texts.",
            )
        words = [len(split_words(text)) for text in texts]
        if sum(words) > self._settings.max_explained_words:
            raise APIError(
                413,
                "too_many_words",
                f"The texts have {sum(words):,} words and punctuation marks; an explanation may "
                f"have at most {self._settings.max_explained_words:,}. Send shorter texts.",
            )
        if not any(words[:2]) or (on is not None and not all(text.strip() for text in texts)):
            raise APIError(400, "no_words", "There is nothing to explain: a text has no words.")
        times = scorings(sum(words))
        if self.pairs is not None:
            return self.pairs.check([(a, b)], times=times)
        return self.batches.check([a, b] if on is None else [(a, b, on)], times=times)


def _raise(task: QueuedRequest, error: Exception) -> None:
    raise error


class LoadedModels:
    """Models by name, up to a maximum; a requested one is loaded in a thread.

    When there is no room, the least recently used model is unloaded, idle ones first. A busy model
    finishes its queue first; requests that arrive for it meanwhile wait until it is loaded again,
    after the model that replaces it. Not thread-safe.

    Args:
        load: loads a model by name.
        most: how many may be loaded; pinned ones do not count.
        changed: called when a load has ended, and before one begins, which may kill the process.
        ended: called in the thread of a load when it has ended.

    Attributes:
        loading: the name of the model that is being loaded.
        failed: reasons of failed loads, by name, since this was last emptied.
    """

    def __init__(
        self,
        load: Callable[[str], HostedModel],
        *,
        most: int,
        changed: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._load = load
        self._most = most
        self._changed = changed
        self._ended = ended
        self._models: dict[str, HostedModel] = {}  # the least recently used first
        self._waiting: dict[str, list[QueuedRequest]] = {}  # by model, next one first
        self._leaving: str | None = None
        self._coming: Future[HostedModel] | None = None
        self.loading: str | None = None
        self.failed: dict[str, str] = {}

    def __iter__(self) -> Iterator[HostedModel]:
        return iter(self._models.values())

    def __getitem__(self, name: str) -> HostedModel:
        return self._models[name]

    @property
    def has_news(self) -> bool:
        """Whether a load has ended that :meth:`advance` has not handled yet."""
        return self._coming is not None and self._coming.done()

    def load(self, name: str) -> HostedModel:
        """The model, loaded synchronously if necessary; raises if that fails."""
        if name not in self._models:
            coming = self._coming if self.loading == name else None
            self._models[name] = self._load(name) if coming is None else coming.result()
        return self._models[name]

    def admit(self, task: QueuedRequest) -> None:
        """Enqueue a request, whose model may have to be loaded first; raises if it is refused."""
        name = task.head["model"]
        if name in self._models and name != self._leaving:
            self._models[name] = self._models.pop(name)
            self._models[name].admit(task)
        else:
            self._waiting.setdefault(name, []).append(task)

    def advance(self, refuse: Refuse) -> None:
        """Take over a finished load, unload a model if necessary, and start the next load.

        Args:
            refuse: called with a request that cannot be answered.
        """
        if self.has_news:
            self._take_in(refuse)
        self._forget_deserted()
        while self._waiting and self._coming is None:
            name = next(iter(self._waiting))
            if name in self._models:  # it was about to be unloaded, and no longer is
                self._leaving = None
                self._admit_waiting(name, refuse)
            elif self._make_room(refuse):
                self._begin(name)
            else:
                break

    def _take_in(self, refuse: Refuse) -> None:
        assert self._coming is not None and self.loading is not None
        name, coming = self.loading, self._coming
        self.loading, self._coming = None, None
        try:
            self._models.setdefault(name, coming.result())
        except Exception as error:
            known = isinstance(error, TertiumError | OSError)
            self.failed[name] = str(error) if known else where(error)
            for task in self._waiting.pop(name, []):
                message = f"The model '{name}' cannot be loaded at the moment."
                refuse(task, APIError(503, "model_unavailable", message))
        else:
            self._admit_waiting(name, refuse)
        self._changed()

    def _admit_waiting(self, name: str, refuse: Refuse) -> None:
        for task in self._waiting.pop(name, []):
            if not task.dropped:
                try:
                    self.admit(task)
                except APIError as refusal:
                    refuse(task, refusal)

    def _forget_deserted(self) -> None:
        """Do not load models that nobody is waiting for any more."""
        for name, tasks in list(self._waiting.items()):
            if name != self.loading and all(task.dropped for task in tasks):
                del self._waiting[name]

    def _make_room(self, refuse: Refuse) -> bool:
        """Whether there is room for one more; if not, one is marked to be unloaded."""
        able = [name for name, model in self._models.items() if not model.pinned]
        if len(able) < self._most:
            return True
        idle = next((name for name in able if not self._models[name].busy), None)
        if idle is None:
            self._leaving = self._leaving or able[0]
            return False
        stays, self._leaving = self._leaving, None
        del self._models[idle]
        gc.collect()  # free reference cycles before the next load
        if stays is not None and stays != idle:
            self._admit_waiting(stays, refuse)
        return True

    def _begin(self, name: str) -> None:
        coming: Future[HostedModel] = Future()

        def run() -> None:
            try:
                coming.set_result(self._load(name))
            except BaseException as error:
                coming.set_exception(error)
            self._ended()

        self.loading, self._coming = name, coming
        self._changed()
        threading.Thread(target=run, daemon=True).start()
