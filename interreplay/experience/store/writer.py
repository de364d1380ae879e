"""Writes transitions into a store while a run collects them."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import gymnasium as gym
import numpy as np
from filelock import FileLock, Timeout

from interreplay.errors import UsageError, check_number
from interreplay.experience.store.header import HEADER, META, REPORTS_SUCCESS, Columns, Header, width
from interreplay.experience.store.reader import SUCCESS, ExperienceStore
from interreplay.experience.store.segments import (
    JOURNAL,
    RECORD_BYTES,
    column_file,
    commit_record,
    commits,
    compute_checksum,
    rewrite_journal,
    segment_name,
)
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.runs.state_files.disk import UNSUPPORTED, free_path, sync
from interreplay.transitions import Transitions, cat_columns, unchecked

SECONDS = 1.0
"""Seconds after which rows are written although their episode continues."""
SECONDS_BETWEEN_SYNCS = 30.0
"""Seconds between requests to the operating system to move written rows to the disk, against power failures."""
ROWS_PER_SEGMENT = 65_536
SEGMENTS = 8
"""Minimum number of segments of a full store: the oldest rows are dropped by segments."""
ADDED_PER_PART = 64
"""Calls of `add` after which rows are joined by column, because many small objects in memory are slow."""
ASIDE = "_aside_"

_Added = tuple[dict[str, Any], tuple[list[bool], list[bool], list[int]], int, int, float]
"""Added rows: columns as tensors; terminated, truncated and episode as lists, joined faster; step, version, time."""


class StoreWriter:
    """Appends rows to a store. Rows survive a killed process once their episode ends, and after `SECONDS` at most.

    A disk error ends the recording with one line; training continues. Rows that were complete are kept.

    Args:
        folder: Folder of the store, created with the first rows. Rows of an existing store are kept.
        env: Id of the environment.
        env_args: Arguments of the environment.
        spaces: Observation and action space of one environment.
        most_rows: Maximum number of rows; the oldest segments are dropped.
        about: Further plain values for the header.
        notify: Called with one line when the recording ends early, in the thread that adds rows.
        seconds: Replaces `SECONDS`.

    Attributes:
        rows: Number of complete rows.
        recording: Whether rows are still recorded.
        reports_success: Whether the environment has reported a success or a failure, for the header.
    """

    def __init__(
        self,
        folder: Path,
        env: str,
        env_args: Mapping[str, Any],
        spaces: tuple[gym.Space, gym.Space],
        most_rows: int = 1_000_000,
        about: Mapping[str, Any] | None = None,
        notify: Callable[[str], object] = str,
        seconds: float = SECONDS,
    ):
        check_number("most_rows", most_rows, 1, whole=True)
        self.folder = folder
        self.rows = 0
        self.recording = True
        self.reports_success = False
        self._env = env
        self._env_args = dict(env_args)
        self._spaces = spaces
        self._most = most_rows
        self._per_segment = max(1, min(ROWS_PER_SEGMENT, most_rows // SEGMENTS))
        self._about = dict(about or {})
        self._notify = notify
        self._seconds = seconds
        self._header: Header | None = None
        self._segments: list[tuple[Path, int]] = []
        self._files: dict[str, BinaryIO] = {}
        self._pending: deque[_Added] = deque()
        self._joined: list[dict[str, np.ndarray]] = []
        self._problem = ""
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._synced = time.monotonic()
        self._claim = FileLock(folder / ".lock", timeout=0, fallback_to_soft=False)
        self._call_guarded(self._open)

    def _open(self) -> None:
        """Lock the folder, and continue an existing store after its last complete row.

        On file systems without locks, nothing is locked.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._claim.acquire()
        except Timeout:
            raise UsageError("another process records into it") from None
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        if not (self.folder / HEADER).exists():
            return
        store = ExperienceStore(self.folder)
        for segment in store.damaged:
            rewrite_journal(segment, segment.rows)
        self._header = store.header
        self._segments = [(segment.path, segment.rows) for segment in store.segments]
        self.rows = store.rows

    # -- adding -----------------------------------------------------------------------------------

    def add(self, rows: Transitions, step: int, version: int) -> None:
        """Append rows.

        Args:
            rows: n transitions with episode ids. They must not change afterwards.
            step: Env step of the first row, counted over the run.
            version: Number of updates that the policy had when it acted.
        """
        if not self.recording:
            return self._report()
        lists = (rows.terminated.tolist(), rows.truncated.tolist(), rows.episode.tolist())
        columns = {
            "obs": rows.obs,
            "actions": rows.actions,
            "rewards": rows.rewards,
            "next_obs": rows.next_obs,
            "extras": rows.extras,
        }
        self._pending.append((columns, lists, step, version, time.time()))
        if True in lists[0] or True in lists[1]:
            self.commit()
        elif len(self._pending) >= ADDED_PER_PART:
            self._call_guarded(self._join)
        if self._thread is None:
            self._thread = threading.Thread(target=self._commit_regularly, name="experience store", daemon=True)
            self._thread.start()

    def commit(self, durable: bool = False) -> None:
        """Write the added rows, so that they survive a killed process; if `durable`, also a power failure."""
        self._call_guarded(self._commit)
        if durable:
            self._call_guarded(self._sync)
        self._report()

    def _commit_regularly(self) -> None:
        """Write rows of long episodes and slow environments from another thread."""
        while self.recording and not self._closed.wait(self._seconds):
            self._call_guarded(self._commit)
            if time.monotonic() - self._synced > SECONDS_BETWEEN_SYNCS:
                self._synced = time.monotonic()
                self._call_guarded(self._sync, lock=contextlib.nullcontext())  # rows can be added meanwhile

    def _join(self) -> None:
        """Join the pending rows by column; another thread may add rows meanwhile."""
        pending = [self._pending.popleft() for _ in range(len(self._pending))]
        if not pending:
            return
        columns = _stack_columns(pending)
        kinds = {name: (array.shape[1:], array.dtype) for name, array in columns.items()}
        if self._header is None:
            header = Header(
                id=uuid.uuid4().hex,
                env=self._env,
                env_args=self._env_args,
                observation_space=self._spaces[0],
                action_space=self._spaces[1],
                columns=kinds,
                about=self._about | {REPORTS_SUCCESS: self.reports_success},
            )
            header.write(self.folder)
            self._header = header
        if self.reports_success and not self._header.about.get(REPORTS_SUCCESS):
            self._header = replace(self._header, about={**self._header.about, REPORTS_SUCCESS: True})
            self._header.write(self.folder)
        if kinds != self._header.columns:
            raise UsageError(f"its columns differ from this run's: {_difference(kinds, self._header.columns)}")
        self._joined.append(columns)

    def _commit(self) -> None:
        """Write the rows that were added, after dropping the oldest segments if there are too many rows."""
        self._join()
        if not self._joined:
            return
        assert self._header is not None
        columns = {}
        for name in self._header.columns:
            columns[name] = np.concatenate([rows[name] for rows in self._joined])
        self._joined = []
        if not self._files or self._segments[-1][1] >= self._per_segment:
            self._begin_segment()
        count = len(columns["step"])
        while len(self._segments) > 1 and self.rows > self._most - count:
            oldest, rows = self._segments.pop(0)
            self.rows -= rows
            _remove(oldest)
        for name, column in columns.items():
            _write_all(self._files[name], column.tobytes())
        path, before = self._segments[-1]
        _write_all(self._files[JOURNAL], commit_record(before + count, compute_checksum(columns.values())))
        self._segments[-1] = (path, before + count)
        self.rows += count

    def _begin_segment(self) -> None:
        """Open the files of the next segment, or of the last one if it has room; cut off incomplete rows."""
        assert self._header is not None
        self._sync()
        self._close_files()
        if not self._segments:
            self._segments.append((self.folder / segment_name(0), 0))
        path, rows = self._segments[-1]
        if rows >= self._per_segment:
            path = self.folder / segment_name(int(path.name.removeprefix("rows_")) + rows)
            rows = 0
            self._segments.append((path, rows))
        path.mkdir(exist_ok=True)
        for name, (shape, dtype) in self._header.columns.items():
            self._files[name] = _open(column_file(path, name), rows * width(shape, dtype))
        kept = commits(path) if rows else []
        self._files[JOURNAL] = _open(path / JOURNAL, len(kept) * RECORD_BYTES)
        sync(path)
        sync(self.folder)

    # -- resuming ---------------------------------------------------------------------------------

    def rewind(self, step: int) -> int:
        """Move the rows after an env step to a store ``<name>_aside_<step>`` next to this one; return their number."""
        moved = self._call_guarded(lambda: self._move_aside(step))
        self._report()
        return moved or 0

    def _move_aside(self, step: int) -> int:
        if self._header is None:
            return 0
        store = ExperienceStore(self.folder)
        later = np.flatnonzero(store.column("step") > step)
        if not len(later):
            return 0
        keep = int(later[0])
        _copy_rows(store, keep, free_path(self.folder.with_name(f"{self.folder.name}{ASIDE}{step:08d}")))
        self._close_files()
        self._segments = []
        self.rows = 0
        for segment in store.segments:
            rows = min(segment.rows, keep - self.rows)
            if rows > 0:
                if rows < segment.rows:
                    rewrite_journal(segment, rows)
                self._segments.append((segment.path, rows))
                self.rows += rows
            else:
                _remove(segment.path)
        return store.rows - keep

    # -- end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write the remaining rows, and end the recording."""
        self._call_guarded(self._commit)
        self._call_guarded(self._sync)
        with self._lock:
            self.recording = False
            self._close_files()
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
        self._claim.release()
        self._report()

    def _sync(self) -> None:
        """Move the written rows to the disk: all columns, then the journal.

        The operating system may still write a journal earlier, so that readers check the sizes of the columns.
        """
        for file in list(self._files.values()):  # the journal is the last one
            try:
                os.fsync(file.fileno())
            except (OSError, ValueError):
                if not file.closed:  # another thread may close it meanwhile
                    raise

    def _close_files(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()
        self._files = {}

    def _call_guarded(self, work: Callable[[], Any], lock: Any = None) -> Any:
        """Return the result of `work`, or None after the recording has ended. An error ends it; see `_report`."""
        with lock or self._lock:
            if not self.recording:
                return None
            try:
                return work()
            except (OSError, ValueError, TypeError, KeyError) as error:
                reason = getattr(error, "strerror", None) or " ".join(str(error).split())
                with self._lock:
                    self._problem = f"experience is no longer recorded in {self.folder}: {reason}"
                    self.recording = False
                    self._pending.clear()
                    self._joined = []
                    self._close_files()
                    self._claim.release()
                return None

    def _report(self) -> None:
        """Report once why the recording ended."""
        problem = self._problem
        if problem:
            self._problem = ""
            self._notify(problem)


def _difference(kinds: Columns, expected: Columns) -> str:
    """Describe the first column that is missing or has an unexpected shape or dtype."""
    for name, (shape, dtype) in kinds.items():
        if expected.get(name) != (shape, dtype):
            return f"{name} {shape} {dtype}"
    return f"{next(name for name in expected if name not in kinds)} is missing"


def _stack_columns(pending: list[_Added]) -> dict[str, np.ndarray]:
    """Return pending rows as contiguous arrays by column; rows without a reported success are False."""
    parts, lists, *others = zip(*pending, strict=True)
    counts = np.array([len(terminated) for terminated, _, _ in lists])
    starts = np.cumsum(counts) - counts
    found = {SUCCESS: np.zeros(counts.sum(), bool)}
    for name, values in zip(("terminated", "truncated", "episode"), zip(*lists, strict=True), strict=True):
        found[name] = np.array(list(chain.from_iterable(values)))
    for start, count, part in zip(starts, counts, parts, strict=True):
        if SUCCESS_COLUMN in part["extras"]:
            found[SUCCESS][start : start + count] = part["extras"][SUCCESS_COLUMN].numpy()
    rows = unchecked(**cat_columns(parts), terminated=None, truncated=None)
    for name, column in rows.columns().items():
        if name != SUCCESS:
            array = column.numpy(force=True)
            found[name] = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    for name, values in zip(("step", "version", "time"), others, strict=True):
        found[name] = np.repeat(values, counts).astype(META[name])
    found["step"] += np.arange(len(found[SUCCESS])) - np.repeat(starts, counts)
    return found


def _remove(segment: Path) -> None:
    (segment / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(segment, ignore_errors=True)


def _open(path: Path, size: int) -> BinaryIO:
    """Return a file to append to, cut to `size` bytes."""
    file = path.open("ab", buffering=0)
    file.truncate(size)
    return file


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes; a nearly full disk accepts only a part and raises an error at the next call."""
    written = file.write(data)
    while written < len(data):
        written += file.write(data[written:])


def _copy_rows(store: ExperienceStore, start: int, target: Path) -> None:
    """Write the rows from `start` on into a new store with one segment."""
    segment = target / segment_name(0)
    segment.mkdir(parents=True)
    columns = {name: store.column(name, start) for name in store.header.columns}
    for name, column in columns.items():
        with _open(column_file(segment, name), 0) as file:
            _write_all(file, column.tobytes())
            os.fsync(file.fileno())
    (segment / JOURNAL).write_bytes(commit_record(store.rows - start, compute_checksum(columns.values())))
    sync(segment / JOURNAL)
    sync(segment)
    replace(store.header, id=uuid.uuid4().hex).write(target)
