"""The results of one run as a table of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from interreplay.runs.results.reader import FILES, NAMES, elapsed_seconds, kept_rows, named, number, read_rows

__all__ = ["FILES", "REPLAY", "Results", "read_results"]

REPLAY = "replay_buffer/"
LEARNED = "learners/default_policy/"
OF_UNROLLS = ("rho_mean", "rho_clipped_share", "kl_to_behavior", "kept_share", "effective_sample_size")
"""What updates from unrolls say of how far these are from the policy; read as diagnostics of replay."""


@dataclass(frozen=True)
class Results:
    """What a run reported.

    Attributes:
        table: A row per result, env_steps rising: the columns of `NAMES`, and the diagnostics as ``replay_buffer/...``.
        done: Whether Tune called the run done.
        note: What was wrong with the file, empty where nothing was.
    """

    table: pd.DataFrame
    done: bool = False
    note: str = ""


def read_results(folder: Path) -> Results:
    """Return the results in a run's folder.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file holds something else than results.
    """
    found = read_rows(folder)
    done = bool(found.rows) and found.rows[-1].get("done") in (True, "True", 1, "1")
    rows = kept_rows(found.rows)
    replay = sorted({name for row in rows for name in row if str(name).startswith(REPLAY)})
    columns = {name: [named(row, name) for row in rows] for name in NAMES}
    columns["seconds"] = elapsed_seconds(rows)
    columns |= {name: [number(row.get(name)) for row in rows] for name in replay}
    for name in OF_UNROLLS:
        found_of = [number(row.get(LEARNED + name)) for row in rows]
        columns |= {REPLAY + name: found_of} if any(LEARNED + name in row for row in rows) else {}
    return Results(pd.DataFrame(columns, dtype=float), done, found.note)
