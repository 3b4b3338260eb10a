"""Benchmarks: tasks, metrics, and reports with provenance."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.evaluation.metrics import pearson, spearman
    from tertium.evaluation.report import Report
    from tertium.evaluation.runner import run
    from tertium.evaluation.tasks import TASKS
    from tertium.evaluation.tasks.csts import condition_sensitivity, condition_type

__all__ = [
    "TASKS",
    "Report",
    "condition_sensitivity",
    "condition_type",
    "pearson",
    "run",
    "spearman",
]

__getattr__ = lazy(__name__)
