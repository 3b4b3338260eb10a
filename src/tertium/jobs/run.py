"""Start or resume bulk jobs, from a file to a folder of shards."""

import contextlib
import pkgutil
import warnings
from pathlib import Path
from typing import Any

from tertium.data.columns import Columns
from tertium.data.shards import Content, Counts, Shard, finished_shards
from tertium.engines import LOADER, Plan
from tertium.errors import TertiumError, require, unknown_name
from tertium.hardware import cores, has_accelerator
from tertium.jobs.cluster import Actors
from tertium.jobs.folder import (
    Job,
    Journal,
    Model,
    check_options,
    locked,
    read_job,
    shard_metadata,
    sound_shards,
    write_job,
)
from tertium.jobs.request import Execution, Finished, Request, hash_model_files
from tertium.jobs.source import OnError, Source, pick, prescan, shard_size
from tertium.jobs.work import Work
from tertium.jobs.workers import Processes
from tertium.models.names import takes_conditions
from tertium.models.tokens import BlankConditionWarning, TokenizationStats
from tertium.progress import bar
from tertium.records.record import InputMark
from tertium.types import EngineName

__all__ = ["encode_file", "run", "score_file"]

_MOST_WORKERS = 8  # maximum default; each has a copy of the model


def encode_file(
    texts: Path | str,
    folder: Path | str,
    *,
    model: str = "default",
    column: str | None = None,
    strip_html: bool = False,
    normalize: bool = False,
    dtype: str = "float32",
    on_error: OnError | str = OnError.FAIL,
    shard_rows: int | None = None,
    execution: Execution | None = None,
    progress: bool | None = None,
    **loading: Any,
) -> Finished:
    """Encode a file of any size into ``folder``; the same call after any interruption resumes.

    A script that calls this needs ``if __name__ == "__main__":``, because it starts processes.

    Args:
        texts: text, TSV, CSV, JSONL or Parquet.
        folder: output folder: new, empty, or from an earlier call with the same arguments.
        model: reserved name, folder or hub id.
        column: column of a table (default: ``sentence`` or ``text``); several, separated by
            commas, are joined.
        strip_html: strip HTML markup from the texts.
        normalize: scale every vector to length 1.
        dtype: ``float32`` or ``float16`` in the files.
        on_error: ``fail`` at the first bad row, before anything is encoded, or ``skip-and-log``.
        shard_rows: rows per shard (default: depends on the number of rows).
        execution: number of processes, or a cluster.
        progress: False for no progress on standard error.
        loading: further arguments of ``tertium.load``.
    """
    if takes_conditions(model, revision=loading.get("revision")):
        raise TertiumError(
            f"{model} takes conditions and has no embeddings. Use an encoder such as default, or "
            "the folder 'encoder' inside it."
        )
    request = Request(
        Source(Path(texts), Content.TEXTS, column, strip_html=strip_html),
        Path(folder),
        model,
        normalize=normalize,
        dtype=dtype,
        on_error=_on_error(on_error),
        shard_rows=shard_rows,
        loading=loading,
    )
    return run(request, execution, progress=progress)


def score_file(
    pairs: Path | str,
    folder: Path | str,
    *,
    model: str = "sts",
    columns: Columns | None = None,
    on_error: OnError | str = OnError.FAIL,
    shard_rows: int | None = None,
    execution: Execution | None = None,
    progress: bool | None = None,
    **loading: Any,
) -> Finished:
    """Score every pair of a file, or every triple if the model takes conditions.

    Takes the arguments of :func:`encode_file` that are not about vectors, and ``columns`` for texts
    in columns with unusual names.
    """
    triples = takes_conditions(model, revision=loading.get("revision"))
    content = Content.TRIPLES if triples else Content.PAIRS
    request = Request(
        Source(Path(pairs), content, columns=columns or Columns()),
        Path(folder),
        model,
        on_error=_on_error(on_error),
        shard_rows=shard_rows,
        loading=loading,
    )
    return run(request, execution, progress=progress)


def _on_error(name: OnError | str) -> OnError:
    try:
        return OnError(name)
    except ValueError:
        raise unknown_name("on_error setting", name, [str(way) for way in OnError]) from None


def run(
    request: Request, execution: Execution | None = None, *, progress: bool | None = None
) -> Finished:
    """Make all missing shards, and describe the result."""
    execution = execution or Execution()
    require("scale", purpose="Writing shards", packages=("pyarrow",))
    if execution.cluster:
        require("cluster", purpose="Running on Ray")
    fingerprint = hash_model_files(request.model, revision=request.loading.get("revision"))
    with locked(request.folder):
        job = _begin(request, fingerprint, progress=progress)
        shards = job.shards
        journal = Journal(request.folder, sound_shards(request.folder, shards, progress=progress))
        pending = [shard for shard in shards if shard.index not in journal.done]
        if pending:
            _make(request, execution, job, journal, pending, progress=progress)
        journal.close()
    counts = sum((done.counts for done in journal.done.values()), Counts())
    _warn(job.content, counts, job.rows)
    about = shard_metadata(request.folder / shards[0].name)
    return Finished(request.folder, job.rows, job.skipped, len(shards), len(pending), about)


def _begin(request: Request, fingerprint: str, *, progress: bool | None) -> Job:
    """The job in the folder, if it is the requested one, or a new one."""
    folder, job = request.folder, read_job(request.folder)
    if job is not None:
        try:
            _check_same(request, job, fingerprint)
        except TertiumError:
            if finished_shards(folder):  # otherwise nothing is lost by starting over
                raise
        else:
            return job
    for left in folder.glob("part-*"):
        left.unlink()
    engines = _plan(request)
    described = InputMark.of(request.source.path)
    found = prescan(request.source, folder, on_error=request.on_error, progress=progress)
    job = Job(
        content=request.source.content,
        input=described,
        model=Model(name=request.model, sha256=fingerprint),
        options=request.options,
        engines=engines,
        rows=found.rows,
        skipped=found.skipped,
        shard_rows=request.shard_rows or shard_size(found.rows),
    )
    write_job(folder, job)
    return job


def _check_same(request: Request, job: Job, fingerprint: str) -> None:
    """Raise if ``job`` differs from the request."""
    folder, source = request.folder, request.source
    if not job.input.matches(source.path):
        raise TertiumError(
            f"{folder} belongs to another job: {source.path} has changed since it was started. "
            "Choose another folder, or remove this one."
        )
    check_options(folder, job, content=source.content, model=fingerprint, **request.options)
    if request.shard_rows not in (None, job.shard_rows):
        raise TertiumError(
            f"{folder} belongs to another job: shard-rows was {job.shard_rows} and is now "
            f"{request.shard_rows}. Rerun the old command, or choose another folder."
        )
    if request.engine not in (EngineName.TORCH, EngineName.DEFAULT):
        if not job.engines:
            raise TertiumError(
                f"{folder} does not record which export its job was started with, because tertium "
                f"{job.tertium} did not. Choose another folder, or remove this one."
            )
        load = pkgutil.resolve_name(request.loader)
        options = {**request.plain_loading, "engine": job.engines, "threads": 1}
        load(request.model, **options)  # raises if an export has changed


def _plan(request: Request) -> Plan:
    """The engine of every part of the model, now and whenever the job is resumed."""
    if request.engine is EngineName.TORCH or request.loader != LOADER:
        return ()
    from tertium.engines.loading import plan_for

    return plan_for(request.model, request.engine, **request.plain_loading)


def _make(
    request: Request,
    execution: Execution,
    job: Job,
    journal: Journal,
    pending: list[Shard],
    *,
    progress: bool | None,
) -> None:
    work = Work(
        content=job.content,
        model=request.model,
        loader=request.loader,
        loading=request.plain_loading,
        engines=job.engines,
        normalize=request.normalize,
        dtype=request.dtype,
        threads=execution.threads,
    )
    if execution.cluster:
        actors = Actors(
            work,
            request.folder,
            fingerprint=job.model.sha256,
            count=execution.workers,
            most=len(pending),
            address=execution.address,
        )
        workers: Actors | Processes = actors
    else:
        count = min(execution.workers or _default_workers(work), len(pending))
        workers = Processes(work, request.folder, count=count, start_method=execution.start_method)
    label, unit = ("encoding", "text") if job.content is Content.TEXTS else ("scoring", "pair")
    there = job.rows - sum(map(len, pending))
    tasks = pick(request.source.rows(), pending)
    with (
        _settling(request, rows=sum(map(len, pending))),
        bar(total=job.rows, label=label, unit=unit, show=progress, initial=there) as shown,
    ):
        workers.run(tasks, finished=journal.add, advanced=shown.update)
    if not job.input.matches(request.source.path):
        raise TertiumError(
            f"{request.source.path} changed while it was being read, so {request.folder} may mix "
            "both versions. Remove the folder and rerun the command."
        )


def _settling(request: Request, *, rows: int) -> contextlib.AbstractContextManager[None]:
    """During a long job, measure which engine ``auto`` should use next time."""
    if request.engine is not EngineName.AUTO or request.loader != LOADER:
        return contextlib.nullcontext()
    from tertium.engines.settle import settling

    return settling(str(request.model), request.plain_loading, rows=rows)


def _default_workers(work: Work) -> int:
    device = work.loading.get("device")
    by_torch = not work.engines
    accelerated = by_torch and (has_accelerator() if device is None else device != "cpu")
    if accelerated:
        return 1
    return max(min(cores() // work.threads, _MOST_WORKERS), 1)


def _warn(content: Content, counts: Counts, rows: int) -> None:
    """Warn once about everything that single calls would have warned about."""
    stats = TokenizationStats(counts.cut, counts.texts, counts.limit, counts.unknown)
    stats.unit = "triple" if content is Content.TRIPLES else "text"
    stats.foreign, stats.looked = counts.foreign, counts.looked
    stats.report(stacklevel=4)
    if counts.blank:
        warnings.warn(
            f"{counts.blank} of {rows} triples have no condition; their sentences were compared "
            "without one.",
            BlankConditionWarning,
            stacklevel=4,
        )
