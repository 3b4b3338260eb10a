"""Which engine ``auto`` should be, measured beside the first long job and remembered for the next.

A child process of its own compares the float graph with its 8-bit form in turn for two seconds. The
job that it runs beside keeps the plan that it began with.
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

LONG = 10_000  # rows: a shorter job is over before it is worth it


@contextlib.contextmanager
def settling(model: str, loading: Mapping[str, Any], *, rows: int) -> Iterator[None]:
    """Measure while the block runs, if that takes long enough; what is not done then is left."""
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
    """Measure every part of the model of which nothing is known."""
    for graph in graphs_of(opened(model, by_torch=False, **loading)):
        if remembered(graph.fingerprint) is None:
            with contextlib.suppress(TertiumError):  # what does not run is no choice
                settle(graph)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
