"""Run the steps of deploy/Dockerfile without an engine: `make docker-check`.

Each stage becomes a folder. WORKDIR and COPY work below it, /opt/tertium lies in it, ENV is set,
and RUN runs in a shell with little else in its environment. Adding a user and dropping rights need
an engine and are left out. At the end the entry point is started and asked as HEALTHCHECK asks.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("useradd",)
PORT = "18080"


def main() -> None:
    """All steps in order, then a server that answers."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        opt = here / "opt"
        opt.mkdir()
        place = Path("/")
        base = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        base |= {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8"}
        environment, start, health = dict(base), [], []
        for what, rest in steps:
            rest = rest.replace("/opt/tertium", f"{opt}/tertium")
            print(what, rest, flush=True)
            if what == "FROM":
                environment = dict(base)
            elif what == "WORKDIR":
                place = here / rest.lstrip("/")
                place.mkdir(parents=True, exist_ok=True)
            elif what == "ENV":
                for word in shlex.split(rest):
                    name, _, value = word.partition("=")
                    environment[name] = value.replace("$PATH", environment["PATH"])
            elif what == "COPY" and not rest.startswith("--from"):
                *sources, target = rest.split()
                for source in sources:
                    copy(ROOT / source, place / target)
            elif what == "RUN" and not rest.startswith(LEFT_OUT):
                subprocess.run(["sh", "-c", rest], cwd=place, env=environment, check=True)
            elif what == "ENTRYPOINT":
                start = json.loads(rest)
            elif what == "HEALTHCHECK":
                health = json.loads(rest[rest.index("[") :].replace("8080", PORT))
        serve([*start, "--port", PORT], health, environment)


def copy(source: Path, target: Path) -> None:
    """What COPY does with a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def serve(start: list[str], health: list[str], environment: dict[str, str]) -> None:
    """Start the entry point, and ask until it is well."""
    program = shutil.which(start[0], path=environment["PATH"])
    server = subprocess.Popen([program or start[0], *start[1:]], env=environment)
    asked = [shutil.which(health[0], path=environment["PATH"]) or health[0], *health[1:]]
    try:
        for _ in range(60):
            if subprocess.run(asked, env=environment, capture_output=True).returncode == 0:
                print("the server is well")
                return
            time.sleep(2)
        sys.exit("the server did not become well within two minutes")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
