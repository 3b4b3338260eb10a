"""Models without weights for worker processes, and jobs that run them."""

import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tertium.data.shards import Content
from tertium.jobs.request import Execution, Finished, Request
from tertium.jobs.run import run
from tertium.jobs.source import OnError, Source
from tests.fakes import HashEncoder

LOADER = "tests.jobs.stubs:load"
FAST = Execution(
    workers=2, start_method="fork"
)  # these models hold nothing that a fork could break


class Stub(HashEncoder):
    """The hash encoder, with accidents on demand.

    Args:
        name: goes into the hash.
        delay: seconds for every window.
        crash: a file; a text "crash" ends the process by a signal while the file is not there,
            and makes it.
        always: a text "crash" always ends the process.
    """

    def __init__(
        self, name: str, *, delay: float = 0, crash: str | None = None, always: bool = False
    ) -> None:
        super().__init__(Path(name).name)
        self.delay = delay
        self.crash = crash
        self.always = always

    def encode(
        self, texts: Sequence[str], *, normalize: bool = False, **options: Any
    ) -> np.ndarray:
        time.sleep(self.delay)
        self._perhaps_crash(texts)
        if "nan" in texts:
            return np.full((len(texts), self.dimension), np.nan, np.float32)
        if "bug" in texts:
            raise ZeroDivisionError("a mistake in the model")
        rows = super().encode(texts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize else rows

    def score(self, pairs: Iterable[Any], **options: Any) -> np.ndarray:
        return super().score([pair[:2] for pair in pairs]).astype(np.float32)

    def _perhaps_crash(self, texts: Sequence[str]) -> None:
        if "crash" not in texts:
            return
        first = self.crash is not None and not Path(self.crash).exists()
        if first and self.crash:
            Path(self.crash).touch()
        if first or self.always:
            os.kill(os.getpid(), signal.SIGKILL)


def load(name: str, **options: Any) -> Stub:
    return Stub(name, **options)


def stub_model(folder: Path, content: str = "{}") -> Path:
    """A folder that passes for a model; its content decides about its fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(content)
    return folder


def job(
    file: Path,
    folder: Path,
    *,
    model: Path,
    content: Content = Content.TEXTS,
    column: str | None = None,
    execution: Execution = FAST,
    on_error: OnError = OnError.FAIL,
    shard_rows: int | None = 4,
    **options: Any,
) -> Finished:
    """A job on a stub; options of the stub go to it."""
    own = {name: options.pop(name) for name in ("normalize", "dtype") if name in options}
    request = Request(
        Source(file, content, column),
        folder,
        str(model),
        on_error=on_error,
        shard_rows=shard_rows,
        loading=options,
        loader=LOADER,
        **own,
    )
    return run(request, execution)


def contents(folder: Path) -> dict[str, bytes]:
    """All that a job leaves, hidden files aside."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
    }
