"""``tertium serve`` under mixed load while its workers are killed, one after the other.

python benchmarks/serve_chaos.py                # five minutes
python benchmarks/serve_chaos.py --seconds 40   # to see that it runs
"""

import argparse
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from common import publish
from serve_common import ours, outcome, watch, workers
from serve_sizing import conditional, embeddings, explain, percentile, similarity, small

GROWTH = 0.05  # of the largest size in the first fifth; more is a leak
CLIENTS = [*[small] * 8, embeddings(64), embeddings(512), similarity(16), explain, conditional(8)]
PAUSE = 0.5  # seconds that a client waits after a refusal


def main() -> None:
    """Kill a worker now and then; every request must get an answer, if only a refusal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--kill-every", type=float, default=20)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    waits: list[float] = []
    sizes: list[tuple[float, float]] = []
    stop = threading.Event()
    threads = max((os.cpu_count() or 1) // chosen.workers, 1)

    with ours("--workers", str(chosen.workers), threads=threads) as (url, process):

        def client(number: int) -> None:
            kind = CLIENTS[number]
            asked = 0
            while not stop.is_set():
                asked += 1
                request = kind(f"{number} {asked}")
                status, seconds = outcome(url, request.path, request.body)
                counts[request.name, status] += 1
                if status != "200":
                    stop.wait(PAUSE)
                elif kind is small:
                    waits.append(seconds)

        with ThreadPoolExecutor(len(CLIENTS) + 1) as pool:
            asking = [pool.submit(client, number) for number in range(len(CLIENTS))]
            asking.append(pool.submit(watch, process, sizes, stop))
            killed = kill(process, chosen.seconds, chosen.kill_every)
            stop.set()
            for each in asking:
                each.result()
    fifth = chosen.seconds / 5
    first = max(size for at, size in sizes if at <= fifth + 1)
    last = max(size for at, size in sizes if at >= 4 * fifth - 1)
    names = list(dict.fromkeys(name for name, _ in counts))
    seen = sorted({status for _, status in counts} | {"200", "lost"})
    rows = [[name, *(f"{counts[name, status]:,}" for status in seen)] for name in names]
    lost = sum(number for (_, status), number in counts.items() if status == "lost")
    title = (
        f"Mixed load for {chosen.seconds:.0f} s, {killed} workers killed: {sum(counts.values()):,} "
        f"requests, {lost} lost; small requests p50 {percentile(waits, 50):.0f} ms, p99 "
        f"{percentile(waits, 99):.0f} ms; memory {first:.0f} MB at first, {last:.0f} MB at last"
    )
    publish("serve_chaos", title, ["request", *seen], rows)
    if last > (1 + GROWTH) * first or lost:
        raise SystemExit("memory grows, or answers were lost")


def kill(process: int, seconds: float, every: float) -> int:
    """Kill one of the workers, whichever it is, again and again; gives how many died."""
    chance = random.Random(0)
    end = time.monotonic() + seconds
    killed = 0
    while time.monotonic() + every < end:
        time.sleep(every)
        victims = sorted(workers(process))
        if victims:
            os.kill(chance.choice(victims), signal.SIGKILL)
            killed += 1
    time.sleep(max(end - time.monotonic(), 0))
    return killed


if __name__ == "__main__":
    main()
