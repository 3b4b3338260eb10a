"""Runs models in MTEB, with STS sets from a local folder: ``pip install 'tertium[mteb]'``."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from tertium.data import benchmarks
from tertium.errors import TertiumError, require
from tertium.evaluation.metrics import hundred, mean_of_all
from tertium.evaluation.report import SuiteResult, TaskResult
from tertium.functional import cosine_matrix, cosine_pairs
from tertium.models.base import Embedder

if TYPE_CHECKING:
    from mteb import AbsTask
    from mteb.models import ModelMeta

__all__ = ["LOCAL_TASKS", "MtebEncoder", "mteb_suite", "run_mteb"]

# MTEB's name of a task, our name of its data, and the split that MTEB tests on.
LOCAL_TASKS: dict[str, tuple[str, str]] = {
    **{year: (year, "test") for year in ("STS12", "STS13", "STS14", "STS15", "STS16")},
    "STSBenchmark": ("STS-B", "test"),
    "SICK-R": ("SICK-R", "all"),  # MTEB calls all 9,927 pairs its test split
}
_PURPOSE = "Running a model in MTEB"


class MtebEncoder:
    """An ``Embedder`` with MTEB's ``EncoderProtocol``, for ``mteb.evaluate``.

    Texts are encoded as usual; MTEB's task instructions and batch size are ignored. Similarity is
    the cosine.

    Example:
        >>> import mteb                                                   # doctest: +SKIP
        >>> mteb.evaluate(MtebEncoder(model), mteb.get_task("STS22"))     # doctest: +SKIP
    """

    def __init__(self, model: Embedder) -> None:
        require("mteb", purpose=_PURPOSE)
        self.model = model

    @property
    def mteb_model_meta(self) -> "ModelMeta":
        """Name, width and training sets; MTEB requires names like ``organisation/model``."""
        from mteb.models import ModelMeta

        ours = {data: task for task, (data, _) in LOCAL_TASKS.items()}
        seen = {ours.get(data.name, data.name) for data in self.model.training_data}
        name = self.model.name
        return ModelMeta.create_empty(
            overwrites={
                "name": name if "/" in name else f"tertium/{name}",
                "embed_dim": self.model.dimension,
                "similarity_fn_name": "cosine",
                "training_datasets": seen or None,
            }
        )

    def encode(self, inputs: Iterable[dict[str, Any]], **options: Any) -> np.ndarray:
        """One row per text of all batches; only MTEB's option for the progress bar is used."""
        texts = [text for batch in inputs for text in batch["text"]]
        rows = self.model.encode(texts, progress=options.get("show_progress_bar"))
        return np.asarray(rows)

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """Cosine of every row with every row."""
        return cosine_matrix(_rows(embeddings1), _rows(embeddings2))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """Cosine of row i with row i."""
        return cosine_pairs(_rows(embeddings1), _rows(embeddings2))


def run_mteb(
    model: Embedder, tasks: Iterable[str], *, folder: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Run MTEB tasks on a model, with the sets in ``LOCAL_TASKS`` from a local folder.

    MTEB has its own protocol: raw text, and for SICK-R all 9,927 pairs, where the papers (and our
    suite) use the 4,927 test pairs. Averages are not comparable with those of the ``sts`` suite.

    Args:
        model: any model with embeddings.
        tasks: MTEB's names, such as ``STS16`` or ``STSBenchmark``.
        folder: benchmark folder (default: ``TERTIUM_DATA``); without one, and for tasks outside
            ``LOCAL_TASKS``, MTEB downloads the data.

    Returns:
        By task: ``main_score`` and, by split and subset, ``scores`` (times 100, None if undefined),
        their ``metric``, all other ``metrics`` of MTEB by split and subset, ``protocol``, ``data``
        and ``seconds``.
    """
    encoder = MtebEncoder(model)
    import mteb

    folder = benchmarks.find_folder(folder)
    chosen = [_task(name) for name in tasks]
    found = {}
    for task in chosen:  # one at a time, with only one set in memory
        name = task.metadata.name
        data = _give_data(task, folder) if folder and name in LOCAL_TASKS else "as MTEB loads it"
        result = mteb.evaluate(
            encoder, task, cache=None, co2_tracker=False, show_progress_bar=False
        )
        (outcome,) = result.task_results
        found[name] = {
            "main_score": hundred(outcome.get_score()),
            "metric": task.metadata.main_score,
            "scores": {
                split: {entry["hf_subset"]: hundred(entry["main_score"]) for entry in entries}
                for split, entries in outcome.scores.items()
            },
            "metrics": {
                split: {entry["hf_subset"]: _numbers(entry) for entry in entries}
                for split, entries in outcome.scores.items()
            },
            "protocol": f"MTEB {mteb.__version__}: {name}, {', '.join(outcome.scores)} split",
            "data": data,
            "seconds": outcome.evaluation_time,
        }
    return found


def mteb_suite(
    suite: str,
    model: Embedder,
    tasks: Sequence[str],
    *,
    metric: str | None = None,
    folder: Path | None = None,
) -> SuiteResult:
    """MTEB tasks as a suite of a report: one figure of each, and their mean.

    Args:
        suite: name of the suite in the report.
        model: any model with embeddings.
        tasks: MTEB's names.
        metric: the figure, the mean over splits and subsets (default: each task's main score).
        folder: benchmark folder, see :func:`run_mteb`.
    """
    found = run_mteb(model, tasks, folder=folder)
    if metric is not None:
        for entry in found.values():
            given = [each for split in entry["metrics"].values() for each in split.values()]
            known = [each[metric] for each in given if metric in each]
            if known:  # a task without the metric keeps its main score, and names it
                entry |= {"main_score": 100 * float(np.mean(known)), "metric": metric}
    metrics = {entry["metric"] for entry in found.values()}
    headline = metric or (metrics.pop() if len(metrics) == 1 else "main_score")
    pooling = None if model.pooling is None else str(model.pooling)
    results = tuple(
        TaskResult(
            task=name,
            values={
                headline: entry["main_score"],
                "metric": entry["metric"],
                "scores": entry["scores"],
                "metrics": entry["metrics"],
            },
            protocol=entry["protocol"],
            split=", ".join(entry["scores"]),
            pooling=pooling,
            data={"name": name, "source": entry["data"]},
            seconds=entry["seconds"] or 0.0,
        )
        for name, entry in found.items()
    )
    average = mean_of_all([entry["main_score"] for entry in found.values()])
    return SuiteResult(suite, headline, results, {"average": average})


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """The numeric metrics of a split and subset."""
    return {
        name: float(value)
        for name, value in entry.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value
    }


def _task(name: str) -> "AbsTask":
    import mteb

    try:
        return mteb.get_task(name)
    except KeyError as error:
        reason = str(error.args[0]).removeprefix("KeyError: ")
        raise TertiumError(f"No such MTEB task: {reason} Run: mteb available-tasks") from error


def _give_data(task: "AbsTask", folder: Path) -> str:
    """Give a task our rows instead of a download, and describe them."""
    from datasets import Dataset, DatasetDict

    name, split = LOCAL_TASKS[task.metadata.name]
    loaded = benchmarks.load(name, split=split, folder=folder, text="raw")
    columns = ("sentence1", "sentence2", "score")
    rows = {column: [getattr(row, column) for row in loaded.rows] for column in columns}
    task.dataset = DatasetDict(test=Dataset.from_dict(rows))
    task.data_loaded = True
    pairs = "all pairs" if split == "all" else "pairs"
    return f"{len(loaded.rows):,} {pairs}, {loaded.text} text, {loaded.source}"


def _rows(embeddings: ArrayLike) -> Tensor:
    rows = torch.as_tensor(embeddings, dtype=torch.float32)
    return rows if rows.ndim == 2 else rows[None]
