"""bfloat16 on the CPU: only if torch survives it."""

import contextlib
import faulthandler
import json
import os
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import torch

from tertium.errors import TertiumWarning
from tertium.hardware import fast_bfloat16
from tertium.probe import VARIABLE, UnusableError, probe, set_cap, state

__all__ = ["bfloat16_state", "check_bfloat16"]

FIRST_RUN = Path(__file__)  # run by its path in a process of its own, where a crash is harmless
SUBJECT = "bfloat16"

_SECONDS = 60  # for a copy of this process


def check_bfloat16(what: str = SUBJECT, *, remedy: str = "use float32") -> None:
    """Raise unless torch can compute in bfloat16 on this processor, in this process.

    Warns once if it can, but only by emulation.

    Args:
        what: the subject of the message.
        remedy: the end of the message.
    """
    outcome = probe(
        SUBJECT,
        versions=_versions(),
        command=lambda folder: [sys.executable, "-P", str(FIRST_RUN), str(folder)],
    )
    outcome.check(what=what, remedy=remedy)
    if not fast_bfloat16():
        warnings.warn(  # from one place, so that Python shows it once
            "This processor has no instructions for bfloat16: torch emulates them, several times "
            f"slower than float32. To be faster, {remedy}.",
            TertiumWarning,
            stacklevel=1,
        )
    if outcome.cap is None:
        return
    set_cap(outcome.cap)
    if not _survives():  # torch reads the cap only once
        raise UnusableError(
            f"{what} runs on this processor only with {VARIABLE}={outcome.cap}, and torch has "
            "already computed in this process without it. Set the variable before you start "
            f"Python, or {remedy}."
        )


def bfloat16_state() -> str:
    """What is known about bfloat16 on this CPU."""
    known = state(SUBJECT, _versions())
    if known.startswith("runs") and not fast_bfloat16():
        return f"{known} by emulation, slower than float32"
    return known


def _versions() -> dict[str, str]:
    return {"torch": version("torch")}


def _survives() -> bool:
    """Whether a fork of this process, with torch in the same state, can compute in bfloat16."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads, which the copy does not use
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            faulthandler.disable()
            torch.set_num_threads(1)
            matrix = torch.ones(64, 64, dtype=torch.bfloat16)
            if float((matrix @ matrix)[0, 0]) == 64:
                os._exit(0)
        os._exit(1)
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def first_run(folder: Path) -> None:
    """Train a layer on batches of a few shapes, and write the outcome into ``folder``."""
    try:
        layer = torch.nn.Linear(96, 64)
        for rows in (1, 7, 256):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = layer(torch.ones(rows, 96)).square().mean()
            torch.autograd.backward(loss)
            stored = torch.ones(rows, 96, dtype=torch.bfloat16)
            torch.nn.functional.linear(stored, layer.weight.to(torch.bfloat16))
        reply: dict[str, object] = {"runs": True}
    except Exception as error:  # torch raises errors of its own
        reply = {"error": str(error).strip().splitlines()[0][:200]}
    (folder / "reply.json").write_text(json.dumps(reply), encoding="utf-8")


if __name__ == "__main__":
    first_run(Path(sys.argv[1]))
