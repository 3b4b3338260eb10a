"""Measures which engine is fastest for a model on this machine, and remembers it."""

import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tertium.data.samples import sample_pairs, sample_sentences
from tertium.engines import ENGINES
from tertium.engines.check import check_engine, open_engine
from tertium.engines.export import cpu_threads, ensure
from tertium.engines.graphs import PartGraph
from tertium.errors import TertiumError, TertiumWarning
from tertium.files import cache_folder, write_text
from tertium.hardware import architecture, cores, processor
from tertium.progress import bar
from tertium.records.lock import lock
from tertium.types import EngineName

__all__ = ["Trial", "machine", "remember", "remembered", "settle", "tune"]

_BUDGET = 1024  # tokens per batch while engines and threads are compared
_BUDGETS = (256, 512, 1024, 2048, 4096)  # for the finalists
_FINALISTS = 2
_TURNS = 3  # rounds in which finalists are compared, since a machine's speed varies
_WARM_UP = 8  # texts for warming up


class Trial(BaseModel):
    """The speed of a model in one configuration.

    Attributes:
        engine: the engine.
        threads: threads of the engine.
        token_budget: tokens per batch, including padding.
        texts_per_second: texts per second, or triples for a conditional model.
        measured: time of the measurement.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: EngineName
    threads: int
    token_budget: int
    texts_per_second: float
    measured: str


def tune(
    graph: PartGraph,
    *,
    seconds: float = 30.0,
    texts: Sequence[str] | None = None,
    exact: bool = False,
    progress: bool | None = None,
) -> list[Trial]:
    """Compare engines and threads, then token budgets of the fastest; remember the best.

    Exports take additional time. An engine that does not run on this processor, or whose export is
    refused, is skipped with a warning.

    Args:
        graph: the graph of the model, or of one of its members.
        seconds: total time for measurements.
        texts: texts to measure with (default: everyday sentences).
        exact: skip engines whose vectors differ by more than rounding.
        progress: False for no progress on standard error.

    Returns:
        All trials, fastest first; those that did not reach the final round come last.
    """
    if not 0 < seconds < math.inf:
        raise TertiumError(f"seconds must be positive and finite, got {seconds:g}.")
    work = list(texts) if texts is not None else _everyday()
    if not work:
        raise TertiumError("There are no texts to measure with.")
    wanted = [engine for engine in _installed() if ENGINES[engine].exact or not exact]
    # Integers first: if they need a cap, their runtime must not have started without it.
    usable = {e for e in sorted(wanted, key=lambda e: ENGINES[e].exact) if _usable(graph, e)}
    engines = [engine for engine in wanted if engine in usable]
    first = [(engine, count) for engine in engines for count in _thread_counts(engine)]
    share = seconds / (len(first) + _FINALISTS * len(_BUDGETS))
    total = len(first) + _TURNS * min(_FINALISTS, len(first))
    trials: list[Trial] = []
    finals: list[Trial] = []
    with bar(total=total, label="tuning", unit="trial", show=progress) as shown:
        for engine, threads in first:
            trials += _trials(graph, engine, threads, [_BUDGET], work, share)
            shown.update(1)
        finalists = _fastest(trials)[:_FINALISTS]
        for best in finalists * _TURNS:
            finals += _trials(graph, best.engine, best.threads, _BUDGETS, work, share / _TURNS)
            shown.update(1)
    others = [trial for trial in trials if trial not in finalists]
    ranked = [*_fastest(finals), *_fastest(others)]
    remember(graph.fingerprint, ranked[0])
    return ranked


def settle(graph: PartGraph, *, seconds: float = 2.0) -> Trial:
    """Alternate between the float graph and its 8-bit form on one core; remember the faster.

    It may run beside a job, which slows both down alike.
    """
    engines = [e for e in (EngineName.ONNX, EngineName.ONNX_INT8) if _usable(graph, e)]
    share = seconds / (_TURNS * max(len(engines), 1))
    trials: list[Trial] = []
    for engine in engines * _TURNS:
        trials += _trials(graph, engine, 1, [_BUDGET], _everyday(), share)
    if not trials:
        raise TertiumError(f"No engine runs {graph.name} here.")
    best = _fastest(trials)[0].model_copy(update={"threads": cpu_threads()})
    remember(graph.fingerprint, best)
    return best


def remembered(fingerprint: str) -> Trial | None:
    """The best trial of a model on this machine, or None."""
    found = _read(_file()).get(_key(fingerprint))
    try:
        return None if found is None else Trial.model_validate(found)
    except ValidationError:  # from another version
        return None


def remember(fingerprint: str, best: Trial) -> None:
    """Save the best trial of a model on this machine."""
    path = _file()
    with lock(path.with_suffix(".lock")):
        known = {**_read(path), _key(fingerprint): best.model_dump(mode="json")}
        write_text(path, json.dumps(known, indent=2) + "\n")


def machine() -> str:
    """The processor, and the number of cores that this process may use."""
    return f"{architecture()}, {processor()}, {cores()} cores"


def _usable(graph: PartGraph, engine: EngineName) -> bool:
    """Whether the engine can run the model here; a missing export is made."""
    if engine is EngineName.TORCH:
        return not graph.part.needs_engine  # which was read without torch
    try:
        check_engine(graph, engine, ensure(graph, engine).folder)
    except TertiumError as error:
        warnings.warn(f"Skipping {engine}: {error}", TertiumWarning, stacklevel=3)
        return False
    return True


def _trials(
    graph: PartGraph,
    engine: EngineName,
    threads: int,
    budgets: Sequence[int],
    texts: list[str],
    seconds: float,
) -> Iterator[Trial]:
    """Trials of one engine with several budgets."""
    running = None
    if engine is not EngineName.TORCH:
        running = open_engine(graph, engine, ensure(graph, engine).folder, threads=threads)
    before = graph.part.engine, graph.part.token_budget
    try:
        for budget in budgets:
            graph.use(running, token_budget=budget)
            yield Trial(
                engine=engine,
                threads=threads,
                token_budget=budget,
                texts_per_second=_rate(graph, texts, seconds),
                measured=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
    finally:
        graph.use(before[0], token_budget=before[1])


def _rate(graph: PartGraph, texts: list[str], seconds: float) -> float:
    """Texts per second, the best of as many passes as the time allows.

    The first pass does not count, because engines compile kernels for every new shape of a batch.
    """
    end = time.perf_counter() + seconds
    graph.work(texts[:_WARM_UP])
    begin = time.perf_counter()
    graph.work(texts[:_WARM_UP])
    first = time.perf_counter() - begin
    some = texts[: max(_WARM_UP, int(_WARM_UP * seconds / 2 / first))]
    graph.work(some)
    best = 0.0
    while not best or time.perf_counter() < end:
        begin = time.perf_counter()
        graph.work(some)
        best = max(best, len(some) / (time.perf_counter() - begin))
    return best


def _fastest(trials: list[Trial]) -> list[Trial]:
    """The best trial of every configuration, fastest first."""
    found: dict[tuple[EngineName, int, int], Trial] = {}
    for trial in sorted(trials, key=lambda trial: -trial.texts_per_second):
        found.setdefault((trial.engine, trial.threads, trial.token_budget), trial)
    return list(found.values())


def _installed() -> list[EngineName]:
    """Torch, and engines with a graph whose packages are installed."""
    return [
        name
        for name, kind in ENGINES.items()
        if name is not EngineName.STATIC and all(find_spec(package) for package in kind.packages)
    ]


def _thread_counts(engine: EngineName) -> list[int]:
    """All threads, half of them and so on; torch's are fixed for the whole process."""
    most = cpu_threads()
    if engine is EngineName.TORCH:
        return [most]
    counts = [most]
    while counts[-1] > 1 and len(counts) < 3:
        counts.append(counts[-1] // 2)
    return counts


def _everyday() -> list[str]:
    pairs = [text for pair in sample_pairs() for text in (pair.sentence1, pair.sentence2)]
    return list(dict.fromkeys([*sample_sentences(), *pairs]))


def _file() -> Path:
    return cache_folder() / "tuning.json"


def _key(fingerprint: str) -> str:
    return f"{fingerprint[:32]} on {machine()}"


def _read(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
