"""The models of a worker: loaded, described, and what each kind of request makes of their rows."""

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tertium.encoders.explanation.words import split_words
from tertium.errors import TertiumError
from tertium.inference.grading import TripleGrader
from tertium.inference.search import TextIndex
from tertium.inference.search.identity import identify
from tertium.inference.search.rows import unit
from tertium.serve.explaining import explain, explains
from tertium.serve.lanes import Lane, Refusal, Task
from tertium.serve.reading import Matrix, TextReader, TripleReader
from tertium.serve.spec import Spec

__all__ = ["Served"]

Answer = tuple[dict[str, Any], bytes]


class Served:
    """What a worker can do.

    Attributes:
        lanes: by kind of request; kinds that share a model share a lane.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._index_changed = 0
        self._model = self._load(spec.model)
        if isinstance(self._model, TripleGrader):
            raise TertiumError(
                f"{spec.model} compares texts under a condition and gives no vectors: name it with "
                "--conditional-model, and with --model an encoder such as default."
            )
        self._conditional = self._load_conditional()
        texts = self._lane(TextReader(self._model))
        self.lanes: dict[str, Lane] = {"embed": texts, "score": texts}
        if self._conditional is not None:
            self.lanes["grade"] = self._lane(TripleReader(self._conditional))
        self._index = None if spec.index is None else self._open_index(Path(spec.index))
        if self._index is not None:
            own = self._index.model is self._model
            self.lanes["search"] = texts if own else self._lane(TextReader(self._index.model))

    def about(self) -> dict[str, Any]:
        """What the server tells of the models."""
        model, index, conditional = self._model, self._index, self._conditional
        found: dict[str, Any] = {
            "model": {
                "name": model.name,
                "dimension": int(model.dimension),
                "scale": [float(end) for end in model.scale],
                "explains": explains(model),
            },
            "conditional": None,
            "index": None,
        }
        if conditional is not None:
            scale = [float(end) for end in conditional.scale]
            able = explains(conditional)
            found["conditional"] = {"name": conditional.name, "scale": scale, "explains": able}
        if index is not None:
            name = index.manifest.model.name
            found["index"] = {"name": name, "texts": len(index), "dimension": index.model.dimension}
        return found

    def finish(self, task: Task) -> Answer:
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
            return {**counts, "results": self._search(rows, head)}, b""
        return {**counts, "scores": rows.tolist()}, b""

    def explain(self, task: Task, pause: Callable[[], None]) -> Answer:
        """The answer to a request for an explanation; ``pause`` is called between its parts."""
        a, b, on = task.contents
        self._check_explained(a, b, on)
        model = self._model if on is None else self._conditional
        return {"explanation": explain(model, a, b, on, pause=pause)}, b""

    def _check_explained(self, a: str, b: str, on: str | None) -> None:
        """Refuse texts that take too long: each of their words is one more pair to score."""
        words = sum(len(split_words(text)) for text in (a, b, on or ""))
        if words > self._spec.max_explained_words:
            raise Refusal(
                413,
                "too_many_words",
                f"{words:,} words and signs are more than the {self._spec.max_explained_words:,} "
                "that one explanation may have. Send shorter texts.",
            )
        if on is None:
            self.lanes["score"].measure([a, b])
        else:
            self.lanes["grade"].measure([(a, b, on)])

    def _search(self, rows: Matrix, head: dict[str, Any]) -> list[list[dict[str, Any]]]:
        index = self._index
        assert index is not None
        self._refresh(index)
        found = index.search_vectors(rows, k=head["k"], threshold=head["threshold"])
        return [[{"id": h.id, "text": h.text, "score": float(h.score)} for h in x] for x in found]

    def _refresh(self, index: TextIndex) -> None:
        """Texts that were added since are found, too."""
        changed = _changed(index.folder)
        if changed != self._index_changed:
            index.refresh()
            self._index_changed = changed

    def _lane(self, reader: TextReader | TripleReader) -> Lane:
        return Lane(reader, budget=self._spec.batch_tokens, most=self._spec.max_tokens)

    def _load(self, name: str, *, engine: str | None = None) -> Any:
        load, engine = pkgutil.resolve_name(self._spec.loader), engine or self._spec.engine
        threads = {} if engine == "torch" else {"threads": self._spec.threads}
        return load(name, engine=engine, **threads)

    def _load_conditional(self) -> Any:
        name = self._spec.conditional
        if name is None:
            return None
        # Vectors that do not look at other words cannot take a condition.
        found = self._load(name, engine="torch" if self._spec.engine == "static" else None)
        if not hasattr(found, "score") or hasattr(found, "encode"):
            raise TertiumError(
                f"The model '{name}' does not take conditions. 'conditional' does, and so do "
                "models of recipes such as seaver-minilm; --conditional-model names them."
            )
        return found

    def _open_index(self, folder: Path) -> TextIndex:
        """With the model that is served, if it built the index; else with the one that did."""
        self._index_changed = _changed(folder)
        known = TextIndex.open(folder).manifest.model
        if identify(self._model).fingerprint == known.fingerprint:
            return TextIndex.open(folder, self._model)
        return TextIndex.open(folder, self._load(known.name))


def _changed(folder: Path) -> int:
    try:
        return (folder / "manifest.json").stat().st_mtime_ns
    except OSError:
        raise TertiumError(
            f"{folder} holds no index: build one with tertium index build."
        ) from None


def warm(served: Served) -> None:
    """Run every lane once, so that the first request does not wait for what is made lazily."""
    for kind, lane in served.lanes.items():
        content: Any = ("A cat sleeps.", "A kitten naps.", "the animal")
        task = Task({"id": 0, "kind": kind}, [content if kind == "grade" else content[0]])
        lane.admit([task], _raise)
        lane.run(lane.gather())
        if not np.isfinite(task.rows if task.rows is not None else 0).all():
            raise TertiumError("The model gives numbers that are not finite.")


def _raise(task: Task, error: Exception) -> None:
    raise error
