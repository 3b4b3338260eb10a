"""Progress on standard error: a bar on a terminal, a plain line every 30 seconds elsewhere."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, ClassVar, Never, Self, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Lines", "bar", "heartbeat", "on_terminal", "silence", "track", "write_line"]

T = TypeVar("T")

_LINE_SECONDS = 30.0
_DELAY = 2.0  # anything faster shows no progress
_silent = threading.Event()


def bar(
    *, total: int | None, label: str, unit: str, show: bool | None = None, initial: int = 0
) -> "tqdm[Never] | Lines":
    """A progress bar that appears after two seconds; ``show=False`` disables it.

    The first ``initial`` units were done earlier and do not count towards the rate.
    """
    if show is not False and not on_terminal():
        return Lines(total=total, label=label, unit=unit, initial=initial)
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=label,
        unit=unit,
        delay=_DELAY,
        disable=show is False,
        leave=False,
        initial=initial,
    )


def track(items: Iterable[T], *, label: str, unit: str, show: bool | None = None) -> Iterator[T]:
    """Iterate over ``items`` with a progress bar."""
    total = len(items) if isinstance(items, Sized) else None
    with bar(total=total, label=label, unit=unit, show=show) as shown:
        for item in items:
            yield item
            shown.update()


@contextlib.contextmanager
def heartbeat(label: str) -> Iterator[None]:
    """Write the progress line every 30 seconds even while no bar advances, until :func:`silence`.

    Does nothing on a terminal, where bars are always visible.
    """
    if on_terminal():
        yield
        return
    begun = Lines.clock()
    _silent.clear()

    def beat() -> None:
        while not _silent.wait(max(Lines.written + _LINE_SECONDS - Lines.clock(), 0.1)):
            Lines.write_if_due(otherwise=(label, begun))

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        silence()
        thread.join()


def silence() -> None:
    """Stop the heartbeat, for a command that now only waits, such as a server."""
    _silent.set()


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return _writable() and sys.stderr.isatty()


class Lines:
    """A progress bar for a log file: one line every 30 seconds for all open bars.

    The interval is shared by the whole process, so that a series of short bars is not silent and
    nested bars do not double the lines.
    """

    clock: ClassVar[Callable[[], float]] = time.monotonic
    written: ClassVar[float] = time.monotonic()
    _open: ClassVar[list["Lines"]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *, total: int | None, label: str, unit: str, initial: int = 0) -> None:
        self.n = self._initial = initial
        self._total, self._label, self._unit = total, label, unit
        self._postfix = ""
        self._begun = Lines.clock()
        Lines._open.append(self)

    def update(self, n: float = 1) -> None:
        """Advance by ``n`` units."""
        self.n += int(n)
        if Lines.clock() - self._begun >= _DELAY:
            Lines.write_if_due()

    def set_postfix(self, figures: Mapping[str, object]) -> None:
        """Show these figures at the end of the line."""
        self._postfix = "".join(f", {name} {value}" for name, value in figures.items())

    def close(self) -> None:
        """Leave this bar out of further lines."""
        if self in Lines._open:
            Lines._open.remove(self)

    @classmethod
    def write_if_due(cls, *, otherwise: tuple[str, float] | None = None) -> None:
        """Write the line if the last one is 30 seconds old.

        Args:
            otherwise: label and start time of the command, to be written if no bar is open.
        """
        with cls._lock:
            now = cls.clock()
            if now - cls.written < _LINE_SECONDS:
                return
            cls.written = now
            parts = [line._text(now) for line in tuple(cls._open)]
            if not parts and otherwise is not None:
                label, begun = otherwise
                parts = [f"{label}: running for {_duration(now - begun)}"]
            if parts and _writable():
                sys.stderr.write("; ".join(parts) + "\n")
                sys.stderr.flush()

    def _text(self, now: float) -> str:
        text = f"{self._label}: {self.n:,}" + (f"/{self._total:,}" if self._total else "")
        done, seconds = self.n - self._initial, now - self._begun
        if done and seconds:
            rate, unit = done / seconds, self._unit
            text += f", {rate:.1f} {unit}/s" if rate >= 1 else f", {1 / rate:.1f} s/{unit}"
            text += f", {_duration((self._total - self.n) / rate)} left" if self._total else ""
        return text + self._postfix

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _duration(seconds: float) -> str:
    """Seconds as ``m:ss``, or ``h:mm:ss`` from one hour on.

    >>> _duration(95), _duration(7261)
    ('1:35', '2:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def write_line(message: str) -> None:
    """Write a line to standard error, above any bars on the terminal."""
    if "tqdm" not in sys.modules:  # then there are no bars
        if _writable():
            sys.stderr.write(message + "\n")
        return
    from tqdm import tqdm

    tqdm.write(message, file=sys.stderr)


def _writable() -> bool:
    return sys.stderr is not None and not sys.stderr.closed
