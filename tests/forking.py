"""What runs in a process of its own, at once: a fork of this one, which has loaded everything."""

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate.state import AcceleratorState

from tertium.cli import main

_QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


@dataclass(frozen=True)
class Forked:
    """A process that runs, the first of a group.

    Attributes:
        pid: of the process and of the group.
        errors: file with its standard error.
    """

    pid: int
    errors: Path

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def kill_when(self, happened: Callable[[], object], seconds: float = 100) -> None:
        """Kill it as soon as that is so, and see that it was still running."""
        try:
            wait_until(happened, seconds)
        finally:
            self.kill()
        assert self.wait() == -signal.SIGKILL, self.errors.read_text()

    def wait(self, seconds: float = 200) -> int:
        """The exit code, or minus the signal that ended it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"no end after {seconds} s: {self.errors.read_text()}")


def wait_until(happened: Callable[[], object], seconds: float = 100) -> None:
    """Return as soon as that is so."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, f"it did not happen within {seconds} s"
        time.sleep(0.01)


def fork(run: Callable[[], object], *, errors: Path, **environment: str) -> Forked:
    """Start the function as a terminal does a command: a group of processes of its own."""
    pid = os.fork()
    if pid:
        return Forked(pid, errors)
    code: object = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDWR)
        told = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for source, target in ((nothing, 0), (nothing, 1), (told, 2)):
            os.dup2(source, target)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        warnings.simplefilter("default")
        for category in _QUIET:
            warnings.simplefilter("ignore", category)
        os.environ.update(environment)
        torch.set_num_threads(1)
        # What this process found about its like does not count for the other.
        AcceleratorState._reset_state(reset_partial_state=True)
        run()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def fork_command(*arguments: object, errors: Path) -> Forked:
    """The same with a command of ours."""

    def run() -> None:
        sys.argv = ["tertium", *map(str, arguments)]
        main()

    return fork(run, errors=errors)
