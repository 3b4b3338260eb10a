"""Where a figure comes from: command, versions, machine, time."""

import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tertium.evaluation.leaks import Excluded
from tertium.hardware import processor

__all__ = ["Provenance"]

_LIBRARIES = ("tertium", "sentence-transformers", "transformers", "torch", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Provenance:
    """Everything needed to make a figure again, and what leak-free figures leave out."""

    command: str
    seed: int
    seconds: float
    excluded: tuple[Excluded, ...] = ()
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    python: str = field(default_factory=platform.python_version)
    versions: dict[str, str] = field(default_factory=lambda: {n: version(n) for n in _LIBRARIES})
    machine: str = field(default_factory=lambda: _machine())

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they stand in JSON."""
        return asdict(self)

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        excluded = ", ".join(map(str, self.excluded))
        leak_free = f"leak-free: without the pairs of {excluded}\n" if excluded else ""
        return leak_free + (
            f"{self.command}\nseed {self.seed}, {self.seconds:.1f} s, {self.date}, {self.machine}\n"
            f"Python {self.python}, {versions}"
        )


def current_command() -> str:
    """The command line of this process, without the folder of the program."""
    program = Path(sys.argv[0])
    name = program.name
    if name == "__main__.py":
        name = f"python -m {program.parent.name}"
    return " ".join([name, *map(_quoted, sys.argv[1:])])


def _quoted(argument: str) -> str:
    return f"'{argument}'" if any(c.isspace() for c in argument) else argument


def _machine() -> str:
    import torch

    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else "no accelerator"
    threads = torch.get_num_threads()
    plural = "" if threads == 1 else "s"
    return f"{processor()}, {os.cpu_count()} cores, {threads} thread{plural}, {accelerator}"
