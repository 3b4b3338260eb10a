"""Memory of ``tertium serve`` while more clients ask than it can answer.

python benchmarks/serve_soak.py                # five minutes
python benchmarks/serve_soak.py --seconds 20   # to see that it runs
"""

import argparse
import os
import threading

from common import publish
from encode import real_texts
from serve_common import bodies, ours, watch, wrk

GROWTH = 0.05  # of the size after the first fifth; more is a leak


def main() -> None:
    """Look at the resident size of server and workers while wrk keeps them busy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--engine", default="torch")
    chosen = parser.parse_args()
    texts = [text for text in real_texts()["wiki"] if "\n" not in text]
    sizes: list[tuple[float, float]] = []
    flags = ("--model", "default", "--engine", chosen.engine, "--queue-requests", "64")
    with ours(*flags, threads=os.cpu_count() or 1) as (url, process), bodies(texts, 4) as file:
        wrk(url, file, clients=8, seconds=5)
        stop = threading.Event()
        watcher = threading.Thread(target=watch, args=(process, sizes, stop))
        watcher.start()
        load = wrk(url, file, clients=chosen.clients, seconds=chosen.seconds)
        stop.set()
        watcher.join()
    first = max(size for at, size in sizes if at <= chosen.seconds / 5 + 1)
    last = max(size for at, size in sizes if at >= chosen.seconds * 4 / 5 - 1)
    rows = [[f"{at:.0f}", f"{size:.0f}"] for at, size in sizes[:: max(len(sizes) // 12, 1)]]
    title = (
        f"Memory at saturation, {chosen.clients} clients, {chosen.engine}: "
        f"{load.rate:.0f} answers/s, {load.status} refused (429), {load.broken} broken, "
        f"growth {100 * (last / first - 1):.1f} %"
    )
    publish("serve_soak", title, ["second", "MB, server and workers"], rows)
    if last > (1 + GROWTH) * first or load.broken:
        raise SystemExit("memory grows, or answers were lost")


if __name__ == "__main__":
    main()
