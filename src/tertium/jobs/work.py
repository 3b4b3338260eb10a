"""The work of one worker, wherever it runs: load the model once, then make one shard at a time."""

import pkgutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tertium.data.shards import Content, Counts, Done, Shard
from tertium.engines import LOADER, Plan
from tertium.errors import TertiumError, TertiumWarning
from tertium.files import atomic_path
from tertium.hardware import release_memory
from tertium.jobs.folder import ShardWriter, describe_shard, disk_errors
from tertium.jobs.request import hash_model_files
from tertium.jobs.source import SourceRow
from tertium.models.tokens import TokenizationStats, chunks
from tertium.records.decision import Decision

__all__ = ["ShardTask", "ShardWorker", "Work", "check_model"]

ShardTask = tuple[Shard, list[SourceRow]]


@dataclass(frozen=True)
class Work:
    """What all shards of a job have in common.

    Attributes:
        content: what a row contains.
        model: name for the loader.
        loader: ``module:function`` that loads the model.
        loading: further arguments of the loader, such as ``device``.
        engines: the engine of each part of the model, if not torch.
        normalize: scale vectors to length 1.
        dtype: number format of vectors in the files.
        window: rows that are encoded together; each distinct text once.
        threads: threads per worker.
    """

    content: Content
    model: str
    loader: str = LOADER
    loading: Mapping[str, Any] = field(default_factory=dict)
    engines: Plan = ()
    normalize: bool = False
    dtype: str = "float32"
    window: int = 4096
    threads: int = 1


class ShardWorker:
    """A loaded model that turns rows into shards."""

    def __init__(self, work: Work) -> None:
        self.work = work
        load = pkgutil.resolve_name(work.loader)
        options = dict(work.loading)
        if work.engines:
            options |= {"engine": work.engines, "threads": options.get("threads") or work.threads}
        elif work.loader == LOADER:
            options["engine"] = "torch"
        self.model: Any = load(work.model, **options)
        release_memory()

    def store(
        self,
        folder: Path,
        task: ShardTask,
        *,
        advanced: Callable[[int], object] = lambda rows: None,
    ) -> Done:
        """Write a shard into ``folder`` atomically."""
        shard, items = task
        path = folder / shard.name
        with disk_errors(folder), atomic_path(path, durable=True) as temporary:
            counts = self._write(temporary, items, advanced)
            return describe_shard(shard, temporary, counts)

    def pack(self, task: ShardTask) -> tuple[bytes, Done]:
        """The bytes of a shard's file, for another process to write."""
        shard, items = task
        buffer = BytesIO()
        counts = self._write(buffer, items, lambda rows: None)
        return buffer.getvalue(), describe_shard(shard, buffer, counts)

    def _write(
        self, sink: Path | BytesIO, items: Sequence[SourceRow], advanced: Callable[[int], object]
    ) -> Counts:
        texts = self.work.content is Content.TEXTS
        model, total = self.model, Counts()
        result = {"dimension": model.dimension} if texts else {"scale": list(model.scale)}
        about = {"model": model.name, **result}
        decision: Decision | None = None if texts else model.decision
        if decision is not None:
            about["decision"] = decision.to_json()
        with ShardWriter(
            sink,
            columns=self.work.content.columns,
            width=model.dimension if texts else None,
            dtype=self.work.dtype if texts else "float32",
            metadata=about,
            decision=decision,
        ) as writer:
            for window in chunks(items, self.work.window):
                results, counts = self._results(window)
                writer.write(window, results)
                total += counts
                advanced(len(window))
        return total

    def _results(self, items: list[SourceRow]) -> tuple[np.ndarray, Counts]:
        seen = TokenizationStats()
        common: dict[str, Any] = {"progress": False, "truncation": seen}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)  # counted, and reported once at the end
            if self.work.content is Content.TEXTS:
                normalize = self.work.normalize
                texts = [item.texts[0] for item in items]
                results = self.model.encode(texts, normalize=normalize, **common)
            else:
                results = self.model.score([item.texts for item in items], **common)
        results = results.astype(self.work.dtype, copy=False)
        _check_finite(self.model.name, items, results)
        blank = 0
        if self.work.content is Content.TRIPLES:
            blank = sum(not item.texts[2].strip() for item in items)
        guessed = {"foreign": seen.foreign, "looked": seen.looked}
        return results, Counts(seen.cut, seen.texts, seen.limit, seen.unknown, blank, **guessed)


def check_model(work: Work, fingerprint: str) -> None:
    """Raise unless the model on this machine is the one that the job was started with."""
    if hash_model_files(work.model, revision=work.loading.get("revision")) != fingerprint:
        raise TertiumError(
            f"The model {work.model} on this machine is not the one that the job was started with. "
            "Copy the same files to every machine."
        )


def _check_finite(name: str, items: Sequence[SourceRow], results: np.ndarray) -> None:
    if np.isfinite(results).all():
        return
    sound = np.isfinite(results.reshape(len(items), -1)).all(axis=1)
    first = items[int(np.argmin(sound))]
    raise TertiumError(
        f"{name} returned a result that is not finite for line {first.line} "
        f"({first.texts[0][:60]!r}). Use another model, or float32 if this is float16."
    )
