"""Reads a store: its columns, rows and episodes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.errors import InterreplayWarning, UsageError
from interreplay.experience.store.header import EXPERIENCE, HEADER, META, REPORTS_SUCCESS, read_header
from interreplay.experience.store.segments import NAMED, Segment
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.transitions import Transitions, group_columns

PORTION = 10_000
SUCCESS = f"extras.{SUCCESS_COLUMN}"


class ExperienceStore:
    """The complete rows of a store; another process may be writing to it.

    Rows that a power failure left incomplete are omitted with a warning.

    Attributes:
        header: Environment, spaces and columns.
        segments: The segments with rows.
        damaged: The segments with incomplete rows.
        rows: Number of rows.

    Raises:
        UsageError: The store is damaged, and no row is complete.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.header = read_header(self.folder)
        paths = sorted(path for path in self.folder.glob("rows_*") if NAMED.fullmatch(path.name))
        found = [Segment(path, self.header.columns) for path in paths]
        self.segments = [segment for segment in found if segment.rows]
        self.rows = sum(segment.rows for segment in self.segments)
        self.damaged = [segment for segment in found if segment.damage]
        for segment in self.damaged:
            if not self.rows:
                raise UsageError(segment.damage)
            message = f"{segment.damage}; incomplete rows are left out, {self.rows:,} rows remain"
            warnings.warn(message, InterreplayWarning, stacklevel=2)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.rows * self.header.row_bytes

    @property
    def files(self) -> list[Path]:
        """The files that change when rows are added."""
        return [self.folder / HEADER, *(segment.path / "journal" for segment in self.segments)]

    def column(self, name: str, start: int = 0) -> np.ndarray:
        """Return a column from row `start` on ``(rows - start, ...)``, memory-mapped if it is in one segment."""
        parts = []
        first = 0
        for segment in self.segments:
            begin = max(0, start - first)
            if begin < segment.rows:
                parts.append(segment.column(name)[begin:])
            first += segment.rows
        if not parts:
            shape, dtype = self.header.columns[name]
            return np.empty((0, *shape), dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def check(self) -> None:
        """Compare all rows with their checksums.

        Raises:
            UsageError: A checksum does not match.
        """
        before = 0
        for segment in self.segments:
            valid = segment.valid_rows()
            if valid < segment.rows:
                raise UsageError(
                    f"experience store {self.folder} is damaged at row {before + valid:,} of {self.rows:,}: its values "
                    "do not match the checksum in the journal"
                )
            before += segment.rows

    def portions(self, start: int = 0) -> Iterator[Transitions]:
        """Yield the rows from `start` on, as they were added, in portions."""
        first = 0
        for segment in self.segments:
            begin = max(0, start - first)
            for low in range(begin, segment.rows, PORTION):
                high = min(low + PORTION, segment.rows)
                columns = {}
                for name in self.header.columns:
                    if name not in META:
                        columns[name] = np.array(segment.column(name)[low:high])
                yield Transitions(**group_columns(columns))
            first += segment.rows

    def episodes(self) -> Any:
        """Return a data frame of the episodes in the order of their first rows.

        Columns: ``ids``; ``lengths`` and ``returns`` of the stored rows; ``ends``, the env steps of the last rows;
        ``ended``, whether the last row terminated or was truncated, otherwise the episode was interrupted; ``success``,
        whether any row was a success, if the environment may report successes.
        """
        import pandas as pd  # takes long to import, and recording does not need it

        names = {"episode": "ids", "rewards": "returns", "step": "ends", SUCCESS: "success"}
        columns = {}
        for column, name in names.items():
            if column in self.header.columns:
                columns[name] = self.column(column)
        rows = pd.DataFrame(columns)
        rows["ended"] = self.column("terminated") | self.column("truncated")
        episodes = rows.astype({"returns": float}).groupby("ids", sort=False)
        found = episodes[["ends", "ended"]].last()
        found["lengths"] = episodes.size()
        found["returns"] = episodes.returns.sum()
        if "success" in rows and (rows.success.any() or self.header.about.get(REPORTS_SUCCESS)):
            found["success"] = episodes.success.any()
        return found.reset_index()


def find_store(path: Path) -> Path | None:
    """Return the folder of the store in a store's or run's folder `path`; None if there are no rows."""
    for folder in (path, path / EXPERIENCE):
        if (folder / HEADER).is_file() and ExperienceStore(folder).rows:
            return folder
    return None
