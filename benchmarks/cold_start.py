"""From a cold process to an answer: commands, and a script of ten lines with sentence-transformers.

python benchmarks/cold_start.py

Each is a process of its own, in turn, so that the machine's mood is the same for all; the median
counts. Files are in the system's cache, graphs in tertium's: the first row of each command is what
the first call after the install takes, with an empty cache folder.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import publish

from tertium.data.samples import PAIRS, SENTENCES
from tertium.models.embedded import default_folder

SCRIPT = """
import sys
from sentence_transformers import SentenceTransformer, util

model = SentenceTransformer(sys.argv[1], device="cpu")
texts = ["A cat sleeps.", "A kitten is napping."]
first, second = model.encode(texts)
print(float(util.cos_sim(first, second)))
"""
TEXTS = ("A cat sleeps.", "A kitten is napping.")


def main() -> None:
    """Measure all of them in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="processes of each (default: 15)")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        commands = prepared(place)
        first = {what: first_call(commands[what], place) for what in commands if what != STOCK}
        taken: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(runs):
            for what, command in commands.items():
                taken[what].append(timed(command, place / "cache"))
    stock = statistics.median(taken[STOCK])
    rows = []
    for what, times in taken.items():
        median = statistics.median(times)
        begun = f"{first[what]:.2f} s" if what in first else ""
        spread = f"{min(times):.2f} to {max(times):.2f} s"
        rows.append([what, f"{median:.2f} s", spread, f"{stock / median:.1f}", begun])
    header = ["process", "median", "range", "times as fast", "the first after the install"]
    publish("cold_start", f"Cold start, {runs} processes of each in turn", header, rows)


STOCK = "sentence-transformers, ten lines"


def prepared(place: Path) -> dict[str, list[str]]:
    """The commands, after each has run once: graphs are made, and an index built."""
    script, pairs, index = place / "stock.py", place / "pairs.tsv", place / "index"
    script.write_text(SCRIPT)
    lines = PAIRS.read_text(encoding="utf-8").splitlines()
    rows = (lines[1:] * 4)[:100]
    pairs.write_text("\n".join([lines[0], *rows]) + "\n", encoding="utf-8")
    tertium = [sys.executable, "-m", "tertium"]
    timed([*tertium, "index", "build", str(SENTENCES), "-o", str(index)], place / "cache")
    commands = {
        STOCK: [sys.executable, str(script), str(default_folder())],
        "tertium compare A B": [*tertium, "compare", *TEXTS],
        "tertium compare A B --on C": [*tertium, "compare", *TEXTS, "--on", "the animal"],
        "tertium score, 100 pairs": [
            *(*tertium, "score", str(pairs), "-o", str(place / "scores.tsv"))
        ],
        "tertium index search": [*tertium, "index", "search", str(index), "a tired animal"],
        "tertium explain A B": [*tertium, "explain", *TEXTS],
    }
    for command in commands.values():
        timed(command, place / "cache")
    return commands


def first_call(command: list[str], place: Path) -> float:
    """Seconds with an empty cache: weights are unpacked, graphs built and tried."""
    with tempfile.TemporaryDirectory(dir=place) as cache:
        return timed(command, Path(cache))


def timed(command: list[str], cache: Path) -> float:
    """Seconds of one process."""
    environment = {**os.environ, "TERTIUM_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an install is compiled
    start = time.perf_counter()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return seconds


if __name__ == "__main__":
    main()
