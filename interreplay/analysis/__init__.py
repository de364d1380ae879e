"""Results on disk to curves, tables and a page: ``python -m interreplay.analysis RESULTS...``. Needs no Ray."""

from __future__ import annotations

from interreplay.analysis.reading.runs import Run, read_runs
from interreplay.analysis.report import make_report

__all__ = ["Run", "make_report", "read_runs"]
