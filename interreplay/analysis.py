"""Reports from results, in Python and as ``python -m interreplay.analysis``; see `interreplay.experiments.report`."""

from interreplay.experiments.report.reading import Run, read_runs
from interreplay.experiments.report.report import main, make_report

__all__ = ["Run", "main", "make_report", "read_runs"]

if __name__ == "__main__":
    raise SystemExit(main())
