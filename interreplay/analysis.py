"""Reports from results, in Python and as ``python -m interreplay.analysis``; see `interreplay.experiments.report`."""

from interreplay.experiments.report import Run, make_report, read_runs
from interreplay.experiments.report.__main__ import main

__all__ = ["Run", "main", "make_report", "read_runs"]

if __name__ == "__main__":
    raise SystemExit(main())
