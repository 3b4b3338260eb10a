"""An HTML report on models: results, figures, mistakes and provenance."""

from tertium.report.build import BuiltReport, build_report

__all__ = ["BuiltReport", "build_report"]
