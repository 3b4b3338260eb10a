"""What the benchmarks of the server share: servers as processes, and wrk."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tertium.files import cache_folder

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Load:
    """What wrk measured; times in milliseconds."""

    requests: int
    seconds: float
    p50: float
    p95: float
    p99: float
    status: int
    broken: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def wrk(url: str, bodies: Path, *, clients: int, seconds: float, seed: int = 0) -> Load:
    """Keep so many clients asking for so long, and see how it went."""
    if shutil.which("wrk") is None:
        raise SystemExit("This needs wrk: apt-get install wrk")
    command = ["wrk", "--threads", "1", "--connections", str(clients), "--timeout", "60s"]
    command += ["--duration", f"{max(round(seconds), 1)}s", "--script", str(HERE / "serve_wrk.lua")]
    command += [f"{url}/v1/embeddings", "--", str(bodies), str(seed)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(x for x in ran.stdout.splitlines() if x.startswith("RESULT "))
    return Load(**json.loads(line.removeprefix("RESULT ")))


@contextlib.contextmanager
def ours(*flags: str, threads: int, source: Path | None = None) -> Iterator[tuple[str, int]]:
    """``tertium serve``, of another checkout if there is a ``source``: its address and process."""
    command = [sys.executable, "-m", "tertium", "serve", "--port", "0", "--json", *flags]
    command += ["--threads", str(threads)]
    environment = with_threads(threads)
    if source is not None:  # exports of another format are kept apart
        cache = cache_folder() / "benchmarks" / "before"
        environment |= {"PYTHONPATH": str(source / "src"), "TERTIUM_CACHE": str(cache)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            if not lines[-1]:
                raise SystemExit("the server did not start")
        yield json.loads("".join(lines))["url"], process.pid
    finally:
        process.terminate()
        process.wait(90)


@contextlib.contextmanager
def baseline(folder: Path, *, threads: int) -> Iterator[str]:
    """The obvious server on the same model."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "serve_baseline.py"), str(folder), str(port)]
    process = subprocess.Popen(command, env=with_threads(threads))
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            with contextlib.suppress(URLError, ConnectionError):
                ask(url, "A cat sleeps.")
                break
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def with_threads(threads: int) -> dict[str, str]:
    """The environment of a process that is to use so many."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


def ask(url: str, text: str) -> list[float]:
    """One text's vector."""
    headers = {"Content-Type": "application/json"}
    asked = Request(f"{url}/v1/embeddings", json.dumps({"input": text}).encode(), headers)
    with urlopen(asked, timeout=60) as answer:
        found: list[float] = json.load(answer)["data"][0]["embedding"]
    return found


@contextlib.contextmanager
def bodies(texts: Sequence[str], size: int) -> Iterator[Path]:
    """A file of request bodies with so many texts each."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for start in range(0, len(texts) - size + 1, size):
            part = list(texts[start : start + size])
            file.write(json.dumps({"input": part[0] if size == 1 else part}) + "\n")
        file.flush()
        yield Path(file.name)


def outcome(url: str, path: str, asked: object) -> tuple[str, float]:
    """The status of an answer, or ``lost`` if none came to its end, and the seconds it took."""
    start = time.monotonic()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    with contextlib.closing(connection):
        try:
            kind = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(asked), kind)
            answer = connection.getresponse()
            answer.read()
            status = str(answer.status)
        except (OSError, http.client.HTTPException):
            status = "lost"
    return status, time.monotonic() - start


def watch(process: int, sizes: list[tuple[float, float]], stop: threading.Event) -> None:
    """Note the memory of a process and all that it has started, every second."""
    start = time.monotonic()
    while not stop.wait(1):
        sizes.append((time.monotonic() - start, sum(map(memory, family(process)))))


def family(process: int) -> list[int]:
    """A process and those that it, or one of them, has started."""
    return [process, *(below for child in children(process) for below in family(child))]


def workers(process: int) -> list[int]:
    """Processes of a server that hold the models: forked from one that has imported everything."""
    return [worker for child in children(process) for worker in children(child)]


def children(process: int) -> list[int]:
    """Processes that it has started."""
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{process}/task/{process}/children").read_text()
        return [int(child) for child in found.split()]
    return []


def memory(process: int) -> float:
    """Megabytes that it holds, those that it shares with others divided among them."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0  # it has ended
