"""Benchmark tasks by name."""

from tertium.evaluation.tasks.base import Outcome, Task
from tertium.evaluation.tasks.contrast import ContrastTask, NegationTask, OppositeTask
from tertium.evaluation.tasks.csts import CstsTask
from tertium.evaluation.tasks.sts import GeometryTask, StsTask
from tertium.evaluation.tasks.transfer import FoldTask, PairTask, SplitTask, TestTask

__all__ = ["TASKS", "Outcome", "Task"]

TASKS: dict[str, Task] = {
    "STS12": StsTask("STS12"),
    "STS13": StsTask("STS13"),
    "STS14": StsTask("STS14"),
    "STS15": StsTask("STS15"),
    "STS16": StsTask("STS16"),
    "STS-B": StsTask("STS-B"),
    "SICK-R": StsTask("SICK-R"),
    "MR": FoldTask("MR"),
    "CR": FoldTask("CR"),
    "SUBJ": FoldTask("SUBJ"),
    "MPQA": FoldTask("MPQA"),
    "SST2": SplitTask("SST2"),
    "TREC": TestTask("TREC"),
    "MRPC": PairTask("MRPC"),
    "geometry": GeometryTask("geometry"),
    "C-STS": CstsTask("C-STS"),
    "contrast": ContrastTask("contrast"),
    "negation-pairs": NegationTask("negation-pairs"),
    "opposites": OppositeTask("opposites"),
    "everyday-opposites": OppositeTask("everyday-opposites", written=True),
}
