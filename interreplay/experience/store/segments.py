"""Segments: folders with one file of raw values per column, and a journal of the rows that are complete."""

from __future__ import annotations

import re
import struct
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import numpy as np

from interreplay.errors import UsageError
from interreplay.experience.store.header import Columns, width
from interreplay.runs.state_files.disk import replacement

JOURNAL = "journal"
NAMED = re.compile(r"rows_(\d{12})")
"""Names of segments, with the number of their first row, counted from the beginning of the run."""
_BODY = struct.Struct("<QId")
_SUM = struct.Struct("<I")
RECORD_BYTES = _BODY.size + _SUM.size


def segment_name(first: int) -> str:
    """Return the name of the segment whose first row has the number `first`."""
    return f"rows_{first:012d}"


def column_file(segment: Path, column: str) -> Path:
    """Return the file of a column. Names are quoted, so that a file is always inside the segment."""
    return segment / f"{quote(column, safe='')}.bin"


def commit_record(rows: int, checksum: int) -> bytes:
    """Return the journal's record of a commit: complete rows of the segment after it, checksum and Unix seconds.

    The checksum is the CRC-32 of the committed values, column by column.
    """
    body = _BODY.pack(rows, checksum, time.time())
    return body + _SUM.pack(zlib.crc32(body))


def commits(segment: Path) -> list[tuple[int, int]]:
    """Return the number of complete rows and the checksum of each commit; a record that was cut off is omitted."""
    try:
        data = (segment / JOURNAL).read_bytes()
    except FileNotFoundError:  # the segment was being created or removed
        return []
    found = []
    for start in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
        body = data[start : start + _BODY.size]
        if _SUM.unpack_from(data, start + _BODY.size)[0] != zlib.crc32(body):
            break
        rows, checksum, _ = _BODY.unpack(body)
        found.append((rows, checksum))
    return found


class Segment:
    """The complete rows of a segment, mapped into memory.

    After a power failure, the journal can be ahead of a column. Commits without all of their values are left out.

    Attributes:
        commits: Number of complete rows and checksum of each commit.
        rows: Number of complete rows.
        damage: Why commits were left out; "" if none was.
    """

    def __init__(self, path: Path, columns: Columns):
        self.path = path
        self.columns = columns
        self.commits = commits(path)
        self.damage = ""
        self.rows = 0
        if self.commits:
            self._check_files()
        if self.commits:
            self.rows = self.commits[-1][0]

    def _check_files(self) -> None:
        for name, (shape, dtype) in self.columns.items():
            file = column_file(self.path, name)
            if self.path.is_symlink() or file.is_symlink():
                raise UsageError(f"experience store {self.path.parent} contains links, at {file}; expected files")
            size = 0
            if file.is_file():
                size = file.stat().st_size
            row_bytes = width(shape, dtype)
            while self.commits and self.commits[-1][0] * row_bytes > size:
                if not self.damage:
                    found = f"{file} has {size} bytes of {self.commits[-1][0] * row_bytes}"
                    self.damage = f"experience store {self.path.parent} is truncated: {found}"
                self.commits.pop()

    def column(self, name: str) -> np.ndarray:
        """Return a column ``(n, ...)`` as a read-only memory map."""
        shape, dtype = self.columns[name]
        if not self.rows or not width(shape, dtype):
            return np.empty((self.rows, *shape), dtype)
        return np.memmap(column_file(self.path, name), dtype, mode="r", shape=(self.rows, *shape))

    def valid_rows(self) -> int:
        """Return the number of rows before the first damaged commit; all rows if no commit is damaged."""
        arrays = list(map(self.column, self.columns))
        start = 0
        for rows, checksum in self.commits:
            if rows < start or compute_checksum(array[start:rows] for array in arrays) != checksum:
                return start
            start = rows
        return start


def compute_checksum(arrays: Iterable[np.ndarray]) -> int:
    """Return the CRC-32 of the bytes of arrays."""
    value = 0
    for array in arrays:
        if array.size:
            value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return value


def rewrite_journal(segment: Segment, rows: int) -> None:
    """Replace the journal by one of the first `rows` rows; complete commits keep their checksums."""
    records = []
    start = 0
    for count, checksum in segment.commits:
        if count <= rows:
            records.append(commit_record(count, checksum))
            start = count
    if start < rows:
        arrays = [segment.column(name)[start:rows] for name in segment.columns]
        records.append(commit_record(rows, compute_checksum(arrays)))
    with replacement(segment.path / JOURNAL) as file:
        file.buffer.write(b"".join(records))
