"""Size and time of an install in fresh environments: the core, the server, and training.

python benchmarks/install_size.py

pip takes the pinned versions from your index or its cache, so that times depend on both; run it
twice and take the second. Where the index has builds of torch for accelerators, `[train]` is
larger.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, publish

EXTRAS = {"core": "", "core and server": "[serve]", "training": "[train]"}


def main() -> None:
    """Install each in an environment of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=EXTRAS, action="append", help="one of them; may repeat")
    chosen = parser.parse_args().only or list(EXTRAS)
    rows = []
    for what in chosen:
        with tempfile.TemporaryDirectory() as name:
            rows.append([what, f"pip install '.{EXTRAS[what]}'", *installed(Path(name), what)])
    header = ["install", "command", "packages", "size", "largest", "time"]
    publish("install_size", "Size and time of an install", header, rows)


def installed(place: Path, what: str) -> list[str]:
    """Number of packages, size, the largest of them, and seconds."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    (site,) = place.glob("lib/python*/site-packages")
    before = sizes(site)
    target = f"{ROOT}{EXTRAS[what]}"
    start = time.perf_counter()
    subprocess.run(
        [*pip, "install", "--constraint", str(ROOT / "constraints.txt"), target], check=True
    )
    seconds = time.perf_counter() - start
    added = {name: size for name, size in sizes(site).items() if name not in before}
    largest = sorted(added, key=lambda name: -added[name])[:4]
    named = ", ".join(f"{name} {added[name]:.0f}" for name in largest)
    count = len(list(site.glob("*.dist-info"))) - sum(x.endswith(".dist-info") for x in before)
    return [str(count), f"{sum(added.values()):,.0f} MB", f"{named} MB", f"{seconds:.0f} s"]


def sizes(site: Path) -> dict[str, float]:
    """Megabytes on the disk of everything that stands in a folder."""
    return {path.name: size(path) / 1e6 for path in site.iterdir()}


def size(path: Path) -> int:
    """Bytes of a file, or of all in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    main()
