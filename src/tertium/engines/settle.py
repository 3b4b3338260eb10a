"""Measures during the first long job which engine ``auto`` should use from then on.

A child process alternates between the float graph and its 8-bit form for two seconds. The job
itself keeps the plan that it started with.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tertium.engines.graphs import graphs_of
from tertium.engines.loading import opened
from tertium.engines.tuning import remembered, settle
from tertium.errors import TertiumError

__all__ = ["settling"]

LONG = 10_000  # rows; a shorter job is not worth it


@contextlib.contextmanager
def settling(model: str, loading: Mapping[str, Any], *, rows: int) -> Iterator[None]:
    """Measure while the block runs, if it is long enough; unfinished measurements are dropped."""
    if rows < LONG:
        yield
        return
    command = [sys.executable, "-m", __name__, model, json.dumps(dict(loading), default=str)]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        child.terminate()
        child.wait()


def main(model: str, loading: Mapping[str, Any]) -> None:
    """Measure every part of the model that has not been measured."""
    for graph in graphs_of(opened(model, by_torch=False, **loading)):
        if remembered(graph.fingerprint) is None:
            with contextlib.suppress(TertiumError):  # no engine runs it
                settle(graph)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
