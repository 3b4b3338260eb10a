"""Parts of the toy problem in processes of their own."""

import socket
from collections.abc import Callable
from pathlib import Path

from tests.forking import fork


def by_two(work: Callable[[Path, Path], object], model: Path, folder: Path) -> tuple[Path, Path]:
    """Do the work here, and by two processes that know of each other, as a launcher starts them.

    Returns:
        The folder of what was done here, and of what the two did.
    """
    one, two = folder / "one", folder / "two"
    for path in (one, two):
        path.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = [
        fork(
            lambda: work(model, two),
            errors=folder / f"errors-{rank}.txt",
            **common,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            LOCAL_WORLD_SIZE="2",
        )
        for rank in range(2)
    ]
    work(model, one)
    for process in processes:
        assert process.wait() == 0, process.errors.read_text()
    return one, two
