"""The shard scheduler of bulk jobs, simulated: wall time and lost work under failures.

python benchmarks/simulate_shards.py                     # in units of one shard's time
python benchmarks/simulate_shards.py --update-docs       # also the plan in docs/scaling.md

The plan takes its rate and its bytes per row from ``benchmarks/results/bulk.json``, which
``benchmarks/bulk.py`` measures. What is assumed about failures stands in ``ASSUMED``.
"""

import argparse
import heapq
import itertools
import json
import random
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "benchmarks" / "results" / "bulk.json"
PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- plan: begin -->", "<!-- plan: end -->"

ROWS = 10**9
SHARD_ROWS = 65_536


@dataclass(frozen=True)
class Setting:
    """A job and what happens to it; times in any one unit.

    Attributes:
        shards: how many there are.
        workers: how many make them.
        shard_time: of one shard on an undisturbed worker.
        start_time: to start a worker and load its model, at the beginning and after a loss.
        mean_life: mean time until a worker is lost, exponential; None for never.
        slow_share: share of workers that are slow.
        slow_factor: how many times longer they need.
        stop_every: the whole job is killed so often, and begun again; None for never.
        resume_time: to check the finished shards and read to the first open row.
    """

    shards: int
    workers: int
    shard_time: float = 1.0
    start_time: float = 0.0
    mean_life: float | None = None
    slow_share: float = 0.0
    slow_factor: float = 1.0
    stop_every: float | None = None
    resume_time: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of it.

    Attributes:
        wall: from the first start to the last shard.
        busy: time of workers that went into shards which were kept.
        lost: time of workers that went into shards which had to be made again.
        losses: how many workers were lost.
        made: how often each shard was finished; once each, or the scheduler is wrong.
    """

    wall: float
    busy: float
    lost: float
    losses: int
    made: tuple[int, ...]


# What is assumed of machines, in units of one shard's time where it is a time.
ASSUMED = {
    "undisturbed": {},
    "a worker lost every 100 shards": {"mean_life": 100.0, "start_time": 0.1},
    "one worker in 20 at half speed": {"slow_share": 0.05, "slow_factor": 2.0},
    "the job killed every 50.5 shard times": {"stop_every": 50.5, "resume_time": 1.0},
    "all of these": {
        **{"mean_life": 100.0, "start_time": 0.1, "slow_share": 0.05, "slow_factor": 2.0},
        **{"stop_every": 50.5, "resume_time": 1.0},
    },
}


def simulate(setting: Setting, *, seed: int = 0) -> Outcome:
    """Hand shards to free workers in order; what is lost goes to the next that is free."""
    chance = random.Random(seed)
    slow = round(setting.slow_share * setting.workers)
    pace = [setting.slow_factor if at < slow else 1.0 for at in range(setting.workers)]
    waiting = deque(range(setting.shards))
    made = [0] * setting.shards
    busy = lost = wall = 0.0
    losses = 0
    begin = 0.0
    while sum(made) < setting.shards:
        stop = begin + setting.stop_every if setting.stop_every else float("inf")
        order = itertools.count()
        free = [(begin + setting.start_time, next(order), at) for at in range(setting.workers)]
        heapq.heapify(free)
        ends: list[tuple[float, int, int, int, float, bool]] = []
        while (waiting and free) or ends:
            if ends and (not waiting or not free or ends[0][0] <= free[0][0]):
                now, _, worker, shard, start, whole = heapq.heappop(ends)
                if now >= stop:  # the kill came first: all that was in hand is lost
                    lost += max(stop - start, 0.0)
                    waiting.appendleft(shard)
                    continue
                if whole:
                    made[shard] += 1
                    busy += now - start
                    wall = now
                    heapq.heappush(free, (now, next(order), worker))
                else:
                    lost += now - start
                    losses += 1
                    waiting.appendleft(shard)
                    heapq.heappush(free, (now + setting.start_time, next(order), worker))
                continue
            now, _, worker = heapq.heappop(free)
            if now >= stop:
                continue
            needed = setting.shard_time * pace[worker]
            life = chance.expovariate(1 / setting.mean_life) if setting.mean_life else needed
            whole = life >= needed
            shard = waiting.popleft()
            heapq.heappush(ends, (now + min(life, needed), next(order), worker, shard, now, whole))
        waiting = deque(sorted(waiting))
        begin = stop + setting.resume_time
    return Outcome(wall, busy, lost, losses, tuple(made))


def table() -> tuple[list[str], list[list[str]]]:
    """Every assumption with several numbers of workers, in units of one shard's time."""
    shards = -(-ROWS // SHARD_ROWS)
    rows = []
    for name, assumed in ASSUMED.items():
        for workers in (16, 64, 256, 1024):
            setting = replace(Setting(shards, workers), **assumed)
            found = simulate(setting)
            ideal = shards / workers
            rows.append(
                [
                    name,
                    f"{workers:,}",
                    f"{ideal:.1f}",
                    f"{found.wall:.1f}",
                    f"{100 * ideal / found.wall:.1f} %",
                    f"{100 * found.lost / (found.busy + found.lost):.2f} %",
                ]
            )
    return ["what happens", "workers", "ideal", "wall time", "efficiency", "work lost"], rows


def plan(rate: float, row_bytes: float, *, price: float | None) -> list[str]:
    """Lines of the plan for a billion sentences, from a worker's measured rate.

    Args:
        rate: sentences a second of one worker with one thread.
        row_bytes: of a sentence with its vector in the shards.
        price: of one processor for an hour, in any currency.
    """
    shards = -(-ROWS // SHARD_ROWS)
    seconds = SHARD_ROWS / rate
    cost = "" if price is None else " cost |"
    lines = [
        f"One worker: {rate:,.0f} sentences/s, {seconds / 60:.1f} minutes for a shard of "
        f"{SHARD_ROWS:,} rows. Output: {ROWS * row_bytes / 1e12:.2f} TB in {shards:,} files.",
        "",
        f"| workers | ideal | with all disturbances | worker-hours |{cost}",
        f"|---:|---:|---:|---:|{'---:|' if cost else ''}",
    ]
    for workers in (16, 64, 256, 1024):
        found = simulate(replace(Setting(shards, workers), **ASSUMED["all of these"]))
        hours = found.wall * seconds / 3600
        ideal = shards / workers * seconds / 3600
        paid = "" if price is None else f" {hours * workers * price:,.0f} |"
        lines.append(
            f"| {workers:,} | {ideal:,.1f} h | {hours:,.1f} h | {hours * workers:,.0f} |{paid}"
        )
    return lines


def update_page(lines: list[str]) -> None:
    """Put the plan between its marks in the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    text = "\n".join([before + BEGIN, "", *lines, "", END + after])
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Publish the table; with a measured rate, print the plan too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, help="sentences a second of one worker")
    parser.add_argument("--row-bytes", type=float, help="bytes of a row in the shards")
    parser.add_argument("--price", type=float, help="of one processor for an hour")
    parser.add_argument("--update-docs", action="store_true", help="write the plan into the page")
    options = parser.parse_args()

    from common import publish

    title = f"{ROWS:,} rows in shards of {SHARD_ROWS:,}, simulated; times in units of one shard"
    publish("simulate_shards", title, *table())
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    rate = options.rate or measured.get("rate_per_worker")
    row_bytes = options.row_bytes or measured.get("bytes_per_row")
    if not rate or not row_bytes:
        print(f"No plan: {MEASURED.name} is not there. Run: python benchmarks/bulk.py")
        return
    lines = plan(rate, row_bytes, price=options.price)
    print("\n".join(lines))
    if options.update_docs:
        update_page(lines)


if __name__ == "__main__":
    main()
