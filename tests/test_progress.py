"""Progress where there is no terminal, and where there is one."""

import io
import sys
import threading
from collections.abc import Iterator

import pytest
from tqdm import tqdm

from tertium import progress
from tertium.cli.output import note
from tertium.progress import Lines, bar, heartbeat, silence, track


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(Lines, "clock", made)
    monkeypatch.setattr(Lines, "written", made.now)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 30.0)
    yield made
    assert not Lines._open, "a bar was left open"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_every_thirty_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with bar(total=600, label="encoding", unit="text") as shown:
        for _ in range(70):
            clock.now += 1
            shown.update(5)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "encoding: 150/600, 5.0 text/s, 1:30 left"
    assert second == "encoding: 300/600, 5.0 text/s, 1:00 left"


def test_what_was_there_before_does_not_count_towards_the_rate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with bar(total=200, label="own", unit="step", initial=100) as shown:
        shown.set_postfix({"loss": "0.125", "score": "80.1"})
        clock.now += 40
        shown.update(20)
    expected = "own: 120/200, 2.0 s/step, 2:40 left, loss 0.125, score 80.1\n"
    assert capsys.readouterr().err == expected


def test_short_bars_share_the_thirty_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(4):
        for _ in track(range(10), label="short", unit="text"):
            clock.now += 1
    assert capsys.readouterr().err == "short: 10/10, 1.0 text/s, 0:00 left\n"


def test_bars_inside_another_share_its_line(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with bar(total=3, label="report", unit="part") as outer:
        clock.now += 10
        outer.update()
        with bar(total=None, label="reading", unit="row") as inner:
            clock.now += 20
            inner.update(40)
    expected = "report: 1/3, 30.0 s/part, 1:00 left; reading: 40, 2.0 row/s\n"
    assert capsys.readouterr().err == expected


def test_short_work_in_an_old_process_is_silent(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    clock.now += 3600
    for _ in track(range(10), label="short", unit="text"):
        clock.now += 0.1
    with bar(total=10, label="unwanted", unit="text", show=False) as shown:
        clock.now += 60
        shown.update()
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with bar(total=10, label="encoding", unit="text") as shown:
        assert isinstance(shown, tqdm) and not shown.disable
        note("a note")
    assert "a note\n" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    with heartbeat("tertium train"):
        assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("closed", [True, False])
def test_no_standard_error_at_all(
    closed: bool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    with bar(total=2, label="encoding", unit="text") as shown:
        clock.now += 60
        shown.update()
    assert Lines.written == clock.now


def test_a_command_without_bars_says_how_long_it_runs(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    clock.now += 95
    Lines.write_if_due(otherwise=("tertium export", 1000.0))
    Lines.write_if_due(otherwise=("tertium export", 1000.0))
    assert capsys.readouterr().err == "tertium export: running for 1:35\n"


def test_the_heart_beats_while_nothing_advances(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    with heartbeat("tertium cluster"):
        assert written.wait(60)
        silence()
    assert stream.getvalue().startswith("tertium cluster: running for 0:0")
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]
