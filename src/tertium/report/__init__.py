"""A page about models: their results, their figures, their mistakes, and how it was made."""

from tertium.report.build import BuiltReport, build_report

__all__ = ["BuiltReport", "build_report"]
