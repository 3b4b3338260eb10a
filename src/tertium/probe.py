"""Tests once, in a child process, whether something runs on this processor, and caches the result.

A library may pick instructions that the processor reports but a virtual machine does not support,
which kills the process. Only the child dies.
"""

import contextlib
import hashlib
import json
import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tertium.errors import TertiumError
from tertium.files import cache_folder, write_text
from tertium.hardware import instructions, processor
from tertium.records.lock import lock

__all__ = [
    "BELOW_AMX",
    "UNKNOWN",
    "VARIABLE",
    "ChildError",
    "Outcome",
    "UnusableError",
    "cap_runtime",
    "probe",
    "set_cap",
    "state",
]

VARIABLE = "ONEDNN_MAX_CPU_ISA"  # read by oneDNN, in torch and in OpenVINO, on first use
BELOW_AMX = "AVX512_CORE_FP16"  # everything oneDNN supports except AMX
REPLY = "reply.json"  # written by the child
RUNS = {"runs": True}
UNKNOWN = "not tried yet"

_SECONDS = 120.0
_CRASHES = ("SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS")
_LASTING = {getattr(signal, name) for name in _CRASHES if hasattr(signal, name)}

_tried: dict[str, "Outcome"] = {}  # results of this process, in case the cache is read-only
_started: dict[str, str | None] = {}  # runtimes of this process, and the cap they started with
_own: str | None = None  # the cap set by this process


class ChildError(TertiumError):
    """The child process survived and reported an error."""


class UnusableError(TertiumError):
    """Something does not run on this processor, or not in this process."""


class Outcome(BaseModel):
    """Whether something runs on this processor.

    Attributes:
        subject: an engine, or a number format.
        graph: hash of the file that was run; empty if there is none.
        runs: whether it runs, with ``cap`` if there is one.
        cap: the value of ``VARIABLE`` that it needs.
        reason: why it does not run, or not without ``cap``.
        setting: the user's own value of ``VARIABLE``.
        versions: versions of the packages that run it.
        processor: name, hash of the instructions, and kernel.
        checked: time of the test.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str
    graph: str
    runs: bool
    cap: str | None = None
    reason: str | None = None
    setting: str | None = None
    versions: dict[str, str]
    processor: str
    checked: str

    def __str__(self) -> str:
        if not self.runs:
            return f"does not run: {self.reason}"
        return "runs" if self.cap is None else f"runs with {VARIABLE}={self.cap}"

    def check(self, *, remedy: str, what: str | None = None) -> None:
        """Raise unless it runs.

        Args:
            remedy: the end of the message.
            what: the subject of the message (default: ``subject``).
        """
        if not self.runs:
            setting = f" with {VARIABLE}={self.setting}" if self.setting else ""
            raise UnusableError(
                f"{what or self.subject} does not run on this processor{setting} "
                f"({self.reason}); {remedy}."
            )


def probe(
    subject: str,
    *,
    graph: str = "",
    versions: Mapping[str, str],
    command: Callable[[Path], Sequence[str]],
    prepare: Callable[[Path], object] = lambda folder: None,
    seconds: float | None = None,
) -> Outcome:
    """The cached outcome for this processor; tested now if there is none.

    Args:
        subject: an engine, or a number format.
        graph: hash of the file to run.
        versions: versions of the packages that run it.
        command: given a folder, the child's command; a child that survives writes ``RUNS`` or
            ``{"error": ...}`` to the file ``REPLY`` in the folder.
        prepare: put what the child needs into the folder.
        seconds: until the child counts as hanging (default: 120).

    Raises:
        ChildError: the child reported an error, which is not cached.
    """
    about = {"subject": subject, "graph": graph, "versions": dict(versions), "processor": _place()}
    setting = _setting()
    found = _known(about, setting)
    if found is not None:
        return found
    with _locked(_path(about, setting)):
        found = _known(about, setting)  # another process may have tested it meanwhile
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(prefix="tertium-") as name:
            prepare(Path(name))
            outcome, lasting = _tried_out(about, setting, command, Path(name), seconds or _SECONDS)
        if lasting:
            _remember(outcome)
    return outcome


def outcomes() -> list[Outcome]:
    """All cached outcomes for this processor and the user's own setting of ``VARIABLE``."""
    found = {path.stem: _read(path) for path in sorted(_folder().glob("*.json"))} | _tried
    here = _place(), _setting()
    return [o for o in found.values() if o is not None and (o.processor, o.setting) == here]


def state(subject: str, versions: Mapping[str, str]) -> str:
    """What is known about ``subject`` here: the worst outcome, if several graphs were tested."""
    known = [o for o in outcomes() if o.subject == subject and o.versions == versions]
    worst = min(known, key=lambda o: (o.runs, o.cap is None), default=None)
    return UNKNOWN if worst is None else str(worst)


def cap_runtime(outcome: Outcome) -> None:
    """Set the cap that ``outcome`` needs, before its runtime starts.

    A runtime reads the cap only once, so one that needs it for anything gets it for everything.

    Raises:
        UnusableError: the runtime has already started without the cap.
    """
    (runtime,) = outcome.versions
    caps = {
        known.cap
        for known in (outcome, *outcomes())
        if known.versions == outcome.versions and known.cap
    }
    if runtime not in _started:
        if caps:
            set_cap(caps.pop())
        _started[runtime] = os.environ.get(VARIABLE)
    elif outcome.cap is not None and _started[runtime] != outcome.cap:
        raise UnusableError(
            f"{outcome.subject} runs on this processor only with {VARIABLE}={outcome.cap}, and "
            f"{runtime} has already started in this process without it. Restart Python, which "
            "then sets it, or set the variable yourself."
        )


def set_cap(cap: str) -> None:
    """Set the cap for runtimes that this process has not started yet, and for its children."""
    global _own
    if os.environ.get(VARIABLE) is None:
        os.environ[VARIABLE] = _own = cap


def _setting() -> str | None:
    """The user's own value of the variable, not one that was set by :func:`set_cap`."""
    value = os.environ.get(VARIABLE)
    return None if value == _own else value


def _place() -> str:
    """Everything about the processor that decides what runs."""
    flags = hashlib.sha256(" ".join(sorted(instructions())).encode()).hexdigest()[:8]
    return f"{processor()}, instructions {flags}, {platform.system()} {platform.release()}"


def _tried_out(
    about: Mapping[str, object],
    setting: str | None,
    command: Callable[[Path], Sequence[str]],
    folder: Path,
    seconds: float,
) -> tuple[Outcome, bool]:
    """The outcome, and whether it is worth caching."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if setting is not None:
        environment[VARIABLE] = setting
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    common = {**about, "setting": setting, "checked": now}
    reason, lasting = _run(command(folder), environment, folder, seconds)
    if reason is None:
        return Outcome(runs=True, **common), True
    if setting is None:
        capped = {**environment, VARIABLE: BELOW_AMX}
        with contextlib.suppress(ChildError):
            if _run(command(folder), capped, folder, seconds)[0] is None:
                return Outcome(runs=True, cap=BELOW_AMX, reason=reason, **common), lasting
    return Outcome(runs=False, reason=reason, **common), lasting


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float
) -> tuple[str | None, bool]:
    """Why the child did not survive, or None, and whether the result is worth caching."""
    reply = folder / REPLY
    reply.unlink(missing_ok=True)
    try:
        with (folder / "output").open("wb") as output:
            code = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=seconds,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds:g} seconds", True
    if code < 0:
        return signal.strsignal(-code) or f"signal {-code}", -code in _LASTING
    if code > 0:
        said = (folder / "output").read_text(errors="replace").strip().splitlines()
        return said[-1][:200] if said else f"exit code {code}", False
    try:
        answer = json.loads(reply.read_bytes())
    except (OSError, ValueError):
        answer = None
    if isinstance(answer, dict) and set(answer) == {"error"}:
        raise ChildError(str(answer["error"]))
    return (None, True) if answer == RUNS else ("an invalid reply", True)


def _known(about: Mapping[str, object], setting: str | None) -> Outcome | None:
    found = _tried.get(_path(about, setting).stem) or _read(_path(about, setting))
    if found is None and setting == BELOW_AMX:  # set by the parent process
        plain = _known(about, None)
        return plain if plain is not None and plain.cap == setting else None
    return found


def _remember(outcome: Outcome) -> None:
    about = outcome.model_dump(include={"subject", "graph", "versions", "processor"})
    path = _path(about, outcome.setting)
    _tried[path.stem] = outcome
    with contextlib.suppress(OSError):  # it may be read-only
        write_text(path, outcome.model_dump_json(indent=2) + "\n")


def _folder() -> Path:
    return cache_folder() / "checks"


def _path(about: Mapping[str, object], setting: str | None) -> Path:
    key = json.dumps({**about, "setting": setting}, sort_keys=True)
    return _folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> Outcome | None:
    try:
        return Outcome.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):  # none, or from another version
        return None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process tests and the others wait; with a read-only cache each tests for itself."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(lock(path.with_suffix(".lock")))
        yield
