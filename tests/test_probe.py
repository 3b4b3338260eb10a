"""Child processes that die, hang, answer rubbish or run only below AMX."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tertium import probe as probing
from tertium.errors import TertiumError
from tertium.probe import BELOW_AMX, VARIABLE, ChildError, Outcome, cap_runtime, probe, state
from tests.probes import child

VERSIONS = {"engine": "1.0"}
Try = Callable[..., Outcome]


@pytest.fixture
def attempt(tmp_path: Path) -> Try:
    """Probe with a child of some behaviour; every start leaves a line in ``starts``."""

    def run(behaviour: str, *, seconds: float | None = None, **options: object) -> Outcome:
        return probe(
            "thing",
            versions=options.pop("versions", VERSIONS),  # type: ignore[arg-type]
            command=lambda folder: [*child(behaviour, tmp_path / "starts"), str(folder)],
            seconds=seconds,
            **options,  # type: ignore[arg-type]
        )

    return run


def starts(tmp_path: Path) -> int:
    path = tmp_path / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("ill", "Illegal instruction"),
        ("segv", "Segmentation fault"),
        ("rubbish", "an invalid reply"),
        ("list", "an invalid reply"),
        ("silent", "an invalid reply"),
    ],
)
def test_what_does_not_survive(
    behaviour: str, reason: str, attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = attempt(behaviour)
    assert (outcome.runs, outcome.cap, outcome.reason) == (False, None, reason)
    assert str(outcome) == f"does not run: {reason}"
    assert starts(tmp_path) == 2  # as it is, and below AMX
    monkeypatch.setattr(probing, "_tried", {})  # as another process
    assert attempt(behaviour) == outcome and starts(tmp_path) == 2
    said = rf"^thing does not run on this processor \({reason}\); use another\.$"
    with pytest.raises(TertiumError, match=said):
        outcome.check(remedy="use another")


@pytest.mark.usefixtures("unprobed")
def test_what_hangs(attempt: Try, tmp_path: Path) -> None:
    begin = time.monotonic()
    outcome = attempt("hang", seconds=0.5)
    assert (outcome.runs, outcome.reason) == (False, "no answer within 0.5 seconds")
    assert time.monotonic() - begin < 300  # it would sleep for an hour
    attempt("hang", seconds=0.5)
    assert starts(tmp_path) <= 2


@pytest.mark.usefixtures("unprobed")
def test_what_runs_is_tried_once(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state("thing", VERSIONS) == "not tried yet"
    outcome = attempt("fine")
    assert outcome.runs and str(outcome) == "runs" and outcome.versions == VERSIONS
    monkeypatch.setattr(probing, "_tried", {})
    assert attempt("fine") == outcome and starts(tmp_path) == 1
    assert state("thing", VERSIONS) == "runs"
    cap_runtime(outcome)
    assert VARIABLE not in os.environ


@pytest.mark.usefixtures("unprobed")
def test_what_decides_is_tried_again(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt("fine")
    attempt("fine", graph="0" * 64)
    attempt("fine", versions={"engine": "1.1"})
    assert starts(tmp_path) == 3
    monkeypatch.setattr(probing, "processor", lambda: "Z80")
    assert state("thing", VERSIONS) == "not tried yet"
    attempt("fine")
    assert starts(tmp_path) == 4


@pytest.mark.usefixtures("unprobed")
def test_what_runs_below_amx(attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = attempt("capped")
    assert (outcome.runs, outcome.cap, outcome.reason) == (True, BELOW_AMX, "Illegal instruction")
    assert state("thing", VERSIONS) == f"runs with {VARIABLE}={BELOW_AMX}"
    outcome.check(remedy="none is needed")
    cap_runtime(outcome)
    assert os.environ[VARIABLE] == BELOW_AMX
    assert attempt("capped") == outcome and starts(tmp_path) == 2  # the cap is not the user's
    for name, value in {"_own": None, "_tried": {}, "_started": {}}.items():
        monkeypatch.setattr(probing, name, value)  # as a worker, whose environment has the cap
    assert attempt("capped") == outcome and starts(tmp_path) == 2
    cap_runtime(outcome)


@pytest.mark.usefixtures("unprobed")
def test_a_runtime_is_capped_for_all_that_it_runs(attempt: Try) -> None:
    attempt("capped", graph="integers")
    cap_runtime(attempt("fine", graph="floats"))
    assert os.environ[VARIABLE] == BELOW_AMX
    cap_runtime(attempt("capped", graph="integers"))


@pytest.mark.usefixtures("unprobed")
def test_a_runtime_that_began_without_the_cap(attempt: Try) -> None:
    cap_runtime(attempt("fine", graph="floats"))
    said = rf"thing runs .* only with {VARIABLE}={BELOW_AMX}, and engine has already started"
    with pytest.raises(TertiumError, match=said):
        cap_runtime(attempt("capped", graph="integers"))


@pytest.mark.usefixtures("unprobed")
def test_the_users_own_setting_is_respected(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "AVX512_CORE_AMX")
    outcome = attempt("capped")
    assert not outcome.runs and starts(tmp_path) == 1
    with pytest.raises(TertiumError, match=rf"processor with {VARIABLE}=AVX512_CORE_AMX \(Illegal"):
        outcome.check(remedy="unset it")
    monkeypatch.setenv(VARIABLE, BELOW_AMX)
    outcome = attempt("capped")
    assert (outcome.runs, outcome.cap, starts(tmp_path)) == (True, None, 2)
    monkeypatch.delenv(VARIABLE)
    assert attempt("capped").cap == BELOW_AMX  # found out anew


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize(
    ("behaviour", "reason"), [("killed", "Killed"), ("exit", "no memory is left")]
)
def test_what_may_be_better_next_time_is_not_remembered(
    behaviour: str, reason: str, attempt: Try, tmp_path: Path
) -> None:
    outcome = attempt(behaviour)
    assert (outcome.runs, outcome.reason) == (False, reason)
    attempt(behaviour)
    assert starts(tmp_path) == 4


@pytest.mark.usefixtures("unprobed")
def test_an_error_in_the_child_is_no_outcome(attempt: Try) -> None:
    with pytest.raises(ChildError, match="the graph is cut off"):
        attempt("error")
    assert state("thing", VERSIONS) == "not tried yet"


@pytest.mark.usefixtures("unprobed")
def test_a_cache_that_cannot_be_written(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "file" / "cache"))
    outcome = attempt("capped")
    assert outcome.cap == BELOW_AMX
    assert attempt("capped") == outcome and starts(tmp_path) == 2  # known to this process


@pytest.mark.usefixtures("unprobed")
def test_a_damaged_outcome_is_found_out_again(
    attempt: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = attempt("fine")
    (path,) = (tmp_path / "cache" / "checks").glob("*.json")
    content = json.loads(path.read_text())
    path.write_text("{")
    monkeypatch.setattr(probing, "_tried", {})
    assert attempt("fine").runs and starts(tmp_path) == 2
    assert json.loads(path.read_text()).keys() == content.keys() == outcome.model_dump().keys()
