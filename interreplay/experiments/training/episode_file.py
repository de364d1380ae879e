"""The file ``episodes.csv`` of a run: a row per training episode."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from interreplay.diagnostics.episode_table import COLUMNS, EpisodeTable
from interreplay.runs.state_files.disk import replacement

NAME = "episodes.csv"


class EpisodeFile:
    """Writes the finished episodes of a run, if it records them, after dropping rows beyond its checkpoint."""

    def __init__(self, folder: Path, algo: Any):
        self.path = folder / NAME
        self._table: EpisodeTable | None = getattr(algo, "episode_table", None)
        self._last = 0
        if self._table is not None and self.path.exists():
            self._rewind(algo.env_steps)
            self._table.continue_after(self._last)  # after --recover, more than in the checkpoint

    def _rewind(self, env_steps: int) -> None:
        """Keep the complete rows of episodes that ended by `env_steps`."""
        with self.path.open(newline="") as old, replacement(self.path) as new:
            writer = csv.DictWriter(new, COLUMNS)
            writer.writeheader()
            for row in csv.DictReader(old):
                if row.keys() != set(COLUMNS) or None in row.values() or int(row["env_steps"]) > env_steps:
                    break
                writer.writerow(row)
                self._last = int(row["episode"])

    def write(self) -> None:
        """Append the episodes that finished since the last call.

        Raises:
            OSError: The rows could not be written. They remain in the table, and a checkpoint contains them.
        """
        if self._table is None:
            return
        rows = [row for row in self._table.rows if row["episode"] > self._last]
        if rows or not self.path.exists():
            self._append(rows)
        self._table.take()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        self.path.touch()
        size = self.path.stat().st_size
        try:
            with self.path.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                if not size:
                    writer.writeheader()
                writer.writerows(rows)
        except OSError:
            os.truncate(self.path, size)  # requires no space
            raise
        if rows:
            self._last = rows[-1]["episode"]
