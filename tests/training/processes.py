"""Parts of the toy problem in processes of their own."""

import os
import socket
import subprocess
import sys

from tests.conftest import ROOT


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.toys", *map(str, arguments)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def start_two(*arguments: object) -> list[subprocess.Popen[str]]:
    """Two processes that know of each other, as a launcher would start them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        start(*arguments, **common, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
        for rank in range(2)
    ]
