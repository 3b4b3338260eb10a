"""The models that a worker serves, and the index that it searches."""

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tertium.corpus import Index
from tertium.corpus.identity import same_model
from tertium.corpus.store import Identity
from tertium.hardware import release_memory
from tertium.models.base import Embedder
from tertium.serve.batching import QueuedRequest
from tertium.serve.loaded import HostedModel, LoadedModels
from tertium.serve.protocol import Message, Spec
from tertium.serve.searching import HostedIndex, unsearchable
from tertium.serve.settings import short_name

__all__ = ["ModelHost"]


class ModelHost:
    """The models of a worker, of which the first is loaded at once, and the index.

    Args:
        spec: what to serve.
        changed: called when a model has been loaded, and before one is.
        ended: called in another thread when a load has ended.

    Attributes:
        models: the loaded models.
    """

    def __init__(
        self, spec: Spec, *, changed: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._settings = settings = spec.settings
        self._served = {each.name: each for each in settings.served}
        self.models = LoadedModels(
            self._load_served, most=settings.max_models, changed=changed, ended=ended
        )
        self.models.load(settings.served[0].name)
        self._searcher: HostedModel | None = None
        self._index: HostedIndex | None = None
        if settings.index is not None:
            retry = settings.index_retry
            self._index = HostedIndex(settings.index, self._open_index, retry=retry)

    @property
    def hosted(self) -> list[HostedModel]:
        """All loaded models, including the one of the index."""
        own = self._searcher if self._searcher not in tuple(self.models) else None
        return [*self.models, *([] if own is None else [own])]

    def about(self) -> dict[str, Any]:
        """Models and index, for the first message to the server."""
        return {**self.about_models(), **self.about_index()}

    def about_models(self) -> dict[str, Any]:
        """Models that are loaded, loading or failed; failures are reported once."""
        failed, self.models.failed = self.models.failed, {}
        return {
            "models": {model.name: model.about() for model in self.models},
            "loading": self.models.loading,
            "failed": failed,
        }

    @property
    def index_fault(self) -> str | None:
        """Why the index cannot be searched, or None."""
        return None if self._index is None else self._index.fault

    def about_index(self) -> dict[str, Any]:
        """The index, or why it cannot be searched."""
        return {"index": None, "fault": None} if self._index is None else self._index.about()

    def look_at_index(self, now: float) -> None:
        """Reopen a faulty index once its folder has changed."""
        if self._index is None or not self._index.is_worth_opening(now):
            return
        searcher = self._searcher
        if searcher is None or searcher in tuple(self.models) or not searcher.busy:
            self._index.open()

    def admit(self, task: QueuedRequest) -> None:
        """Enqueue a request; raises if it is refused."""
        if task.head["kind"] != "search":
            self.models.admit(task)
        elif self._searcher is None or self.index_fault is not None:
            raise unsearchable()
        else:
            assert self._index is not None
            task.head["words"] = list(task.contents) if task.head["hybrid"] else None
            task.contents = [self._index.prompt + text for text in task.contents]
            self._searcher.admit(task)

    def finish(self, task: QueuedRequest) -> Message:
        """The answer to a request with all results."""
        if task.head["kind"] != "search":
            return self.models[task.head["model"]].finish(task)
        assert self._index is not None and task.rows is not None
        asked = {name: task.head[name] for name in ("top_k", "threshold", "where", "words")}
        return {**task.counts, "results": self._index.search(task.rows, **asked)}, b""

    def _load_served(self, name: str) -> HostedModel:
        served = self._served[name]
        # Static token vectors ignore context, so they cannot take a condition.
        static = served.takes_conditions and self._settings.engine == "static"
        model = self._load(served.source, engine="default" if static else self._settings.engine)
        served.check(takes_conditions=model.takes_conditions)
        release_memory()
        return HostedModel(name, model, self._settings)

    def _load(self, source: str, *, engine: str) -> Any:
        load = pkgutil.resolve_name(self._spec.loader)
        threads = {} if engine == "torch" else {"threads": self._spec.threads}
        return load(source, engine=engine, **threads)

    def _open_index(self, folder: Path) -> Index:
        """Open the index with the model that built it, which may be a served one."""
        known = Index.open(folder).manifest.model
        searcher = self._builder(known)
        embedder = searcher.model.vector_model
        assert isinstance(embedder, Embedder)
        index = Index.open(folder, embedder)
        if self._searcher is not None:
            self._searcher.pinned = False
        searcher.pinned = True
        self._searcher = searcher
        return index

    def _builder(self, known: Identity) -> HostedModel:
        """The model that built an index, taken from the served models if it is one of them."""
        for each in self._settings.served:
            loaded = any(model.name == each.name for model in self.models)
            if not each.takes_conditions and (loaded or each.source == known.name):
                hosted = self.models.load(each.name)
                if same_model(hosted.model.vector_model, known):  # type: ignore[arg-type]
                    return hosted
        name = short_name(known.name)
        name = f"{name} of the index" if name in self._served else name
        return HostedModel(
            name, self._load(known.name, engine=self._settings.engine), self._settings
        )
