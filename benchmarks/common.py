"""What every benchmark shares: data, timing, tables that are kept."""

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tertium.data import find_folder
from tertium.evaluation.report import Provenance, current_command, markdown_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
START = time.perf_counter()


def data_folder() -> Path:
    """The benchmark sets, in the folder that ``TERTIUM_DATA`` names.

    An encrypted C-STS among them needs its password, in ``TERTIUM_CSTS_PASSWORD`` or beside it.
    """
    folder = find_folder()
    if folder is None:
        raise SystemExit("Set TERTIUM_DATA to the folder with the benchmark sets.")
    return folder


def seconds(work: Callable[[], object], *, repeats: int = 3) -> float:
    """Best of several timings."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def matmul_limit() -> float:
    """Float32 multiply-adds a second that this machine reaches on one large product, times two."""
    import torch

    size = 1536
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: a @ b, repeats=8)


def peak_memory() -> float:
    """Largest resident size of this process in MB, without what it inherited from its parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def publish(name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table and keep it under ``benchmarks/results``."""
    command = f"python benchmarks/{current_command()}"
    origin = Provenance(command, seed=0, seconds=time.perf_counter() - START)
    text = "\n".join(
        [f"# {title}", "", markdown_table(header, rows), "", "```", str(origin), "```", ""]
    )
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
