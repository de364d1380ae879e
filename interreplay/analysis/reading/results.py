"""The results of one run as a table of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from interreplay.runs.results.reader import FILES, NAMES, kept_rows, named, number, read_rows

__all__ = ["FILES", "REPLAY", "Results", "read_results"]

REPLAY = "replay_buffer/"


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
    columns |= {name: [number(row.get(name)) for row in rows] for name in replay}
    return Results(pd.DataFrame(columns, dtype=float), done, found.note)
