"""The server as a process of its own: ``python -m tests.serve.process SETTINGS [LOADER]``.

Its models need no weights, unless another loader is named.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tertium.serve.app import serve
from tertium.serve.service import Service
from tertium.serve.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
FAKES = "tests.serve.fakes:load"  # not imported: this process holds no model


@dataclass(frozen=True)
class Site:
    """A server that runs."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        found = urlsplit(self.url)
        assert found.hostname is not None and found.port is not None
        return found.hostname, found.port

    def workers(self) -> set[int]:
        """Forked from a child of the server, which has imported everything."""
        return {worker for child in children(self.process.pid) for worker in children(child)}

    def family(self) -> set[int]:
        """Every process that it has started."""
        return children(self.process.pid) | self.workers()

    def resident(self) -> int:
        """Kilobytes of the process that answers."""
        return resident(self.process.pid)


@contextlib.contextmanager
def started(
    *, loader: str = FAKES, log: Path | None = None, env: dict[str, str] | None = None, **flags: Any
) -> Iterator[Site]:
    """A server that is ready; its log is a file, so that it never waits for a reader."""
    chosen = {"port": 0, "model": "slow:0.05", "conditional_model": "none", "threads": 1}
    settings = json.dumps({**chosen, **flags}, default=str)
    with tempfile.TemporaryDirectory() as folder:
        log = log or Path(folder) / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.serve.process", settings, loader],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=env,
            )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), log.read_text()
            yield Site(process, url, log)
        finally:
            process.kill()
            process.communicate()


def children(process: int) -> set[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {int(child) for child in found}


def resident(process: int) -> int:
    """Kilobytes that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if "VmRSS" in line).split()[1])


def ready(url: str, service: Service) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(read_settings(json.loads(sys.argv[1])), ready=ready, loader=sys.argv[2])
