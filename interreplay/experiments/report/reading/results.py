"""Read the results of a run as a table of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from interreplay.runs.results.reader import NAMES, kept_rows, named, number, read_rows

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
    """Return the results in the folder of a run."""
    found = read_rows(folder)
    rows = []
    for reported in kept_rows(found.rows):
        row = {name: named(reported, name) for name in NAMES}
        for name, value in reported.items():
            if name.startswith(REPLAY):
                row[name] = number(value)
            elif name.removeprefix(LEARNED) in UNROLL_METRICS:
                row[REPLAY + name.removeprefix(LEARNED)] = number(value)
        rows.append(row)
    table = pd.DataFrame(rows, dtype=float)
    done = bool(found.rows) and bool(found.rows[-1].get("done"))
    return Results(table, done, found.note)
