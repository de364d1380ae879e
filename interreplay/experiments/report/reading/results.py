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
    """Results of a run, whether Tune marked it as done, and problems of the file.

    The table has a row per result with rising env_steps: the columns of `NAMES`, and diagnostics as
    ``replay_buffer/...``.
    """

    table: pd.DataFrame
    done: bool = False
    note: str = ""


def read_results(folder: Path) -> Results:
    """Return the results in the folder of a run."""
    found, note = read_rows(folder)
    rows = []
    for reported in kept_rows(found):
        row = {name: named(reported, name) for name in NAMES}
        for name, value in reported.items():
            if name.startswith(REPLAY):
                row[name] = number(value)
            elif name.removeprefix(LEARNED) in UNROLL_METRICS:
                row[REPLAY + name.removeprefix(LEARNED)] = number(value)
        rows.append(row)
    table = pd.DataFrame(rows, dtype=float)
    done = bool(found) and bool(found[-1].get("done"))
    return Results(table, done, note)
