"""A lock on a folder: one process at a time works in it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from interreplay.errors import UsageError

LOCK = ".lock"
UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
"""Errors of file systems without locks."""


class FolderInUse(UsageError):
    """Another process holds the lock of a folder."""


@contextlib.contextmanager
def held(folder: Path, what: str, patience: float = 30.0) -> Iterator[None]:
    """Hold the lock of a folder. The system releases it when this process ends, however it ends.

    Wait at most `patience` seconds for another process, such as a killed one that has not ended yet. On file systems
    without locks, nothing is locked.
    """
    lock = FileLock(folder / LOCK, timeout=patience, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderInUse(f"another process is using {folder} ({what}); end it, or wait until it ends") from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    try:
        yield
    finally:
        lock.release()
