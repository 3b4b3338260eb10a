"""The processor: its name, its instructions, and how many of its cores this process may use."""

import contextlib
import ctypes
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

__all__ = [
    "architecture",
    "cores",
    "default_threads",
    "fast_bfloat16",
    "fast_integers",
    "has_accelerator",
    "instructions",
    "processor",
    "release_memory",
]

_CPUINFO = Path("/proc/cpuinfo")
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")  # of NVIDIA, of Windows for Linux, of AMD


def architecture() -> str:
    """The architecture as the system names it: ``x86_64``, ``arm64`` and so on."""
    return platform.machine()


@cache
def processor() -> str:
    """The processor's model name, or the architecture where the system does not know it."""
    found = _described("model name") or _sysctl("machdep.cpu.brand_string")
    return found or platform.processor() or architecture()


@cache
def instructions() -> frozenset[str]:
    """Instruction set extensions, in lower case without underscores; empty if unknown.

    They are what the processor reports: a virtual machine may not support all of them.
    """
    named = _described("flags") or _described("Features")
    if not named:
        named = _sysctl("machdep.cpu.features") + " " + _sysctl("machdep.cpu.leaf7_features")
    return frozenset(named.lower().replace("_", "").split())


def fast_integers() -> bool:
    """Whether the processor multiplies 8-bit integers faster than floats.

    True for x86 with AVX2 (about 1.5 times as fast; with VNNI more than twice) and for ARM with dot
    products.
    """
    return bool({"avx2", "asimddp"} & instructions())


def fast_bfloat16() -> bool:
    """Whether the processor computes in bfloat16 itself, so far as it says what it can do."""
    return not instructions() or bool({"avx512bf16", "amxbf16", "bf16"} & instructions())


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """``OMP_NUM_THREADS`` if set, else one thread per core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else cores()


def has_accelerator() -> bool:
    """Whether torch may find a GPU here, without importing torch.

    True with an NVIDIA or AMD driver, or on a Mac with Apple silicon.
    """
    if platform.system() == "Darwin":
        return architecture() == "arm64"
    return any(Path(driver).exists() for driver in _DRIVERS)


def release_memory() -> None:
    """Return freed memory to the system, which glibc would otherwise keep."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another system
        ctypes.CDLL(None).malloc_trim(0)


def _described(field: str) -> str:
    """A field of the first core in ``/proc/cpuinfo``."""
    try:
        lines = _CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    entries = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in entries if name.strip() == field), "")


def _sysctl(name: str) -> str:
    """A value of the macOS kernel."""
    if platform.system() != "Darwin":
        return ""
    try:
        command = ["/usr/sbin/sysctl", "-n", name]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
