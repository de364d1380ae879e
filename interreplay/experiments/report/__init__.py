"""Reports from result folders: curves, tables and a page. Requires no Ray."""

from __future__ import annotations

from interreplay.experiments.report.reading.runs import Run, read_runs
from interreplay.experiments.report.report import make_report

__all__ = ["Run", "make_report", "read_runs"]
