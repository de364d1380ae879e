"""Read the results of a run as a table of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from interreplay.runs.results.reader import FILES, NAMES, elapsed_seconds, kept_rows, named, number, read_rows

__all__ = ["FILES", "REPLAY", "Results", "read_results"]

REPLAY = "replay_buffer/"
LEARNED = "learners/default_policy/"
UNROLL_METRICS = ("rho_mean", "rho_clipped_share", "kl_to_behavior", "kept_share", "effective_sample_size")
"""Metrics of updates from unrolls that are read as diagnostics of replay."""


@dataclass(frozen=True)
class Results:
    """Results of a run.

    Attributes:
        table: A row per result with rising env_steps: the columns of `NAMES`, and diagnostics as ``replay_buffer/...``.
        done: Whether Tune marked the run as done.
        note: Problems of the file, or "".
    """

    table: pd.DataFrame
    done: bool = False
    note: str = ""


def read_results(folder: Path) -> Results:
    """Return the results in the folder of a run.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file has another format.
    """
    found = read_rows(folder)
    done = bool(found.rows) and found.rows[-1].get("done") in (True, "True", 1, "1")
    rows = kept_rows(found.rows)
    columns = {name: [named(row, name) for row in rows] for name in NAMES}
    columns["seconds"] = elapsed_seconds(rows)
    reported = {str(name) for row in rows for name in row}
    for name in sorted(reported):
        if name.startswith(REPLAY):
            columns[name] = [number(row.get(name)) for row in rows]
    for name in UNROLL_METRICS:
        if LEARNED + name in reported:
            columns[REPLAY + name] = [number(row.get(LEARNED + name)) for row in rows]
    return Results(pd.DataFrame(columns, dtype=float), done, found.note)
