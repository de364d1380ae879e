"""Files that survive full disks and power failures, and a lock on a folder for one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from interreplay.errors import UsageError

LOCK = ".lock"
UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
"""Errors of file systems without locks."""


@contextlib.contextmanager
def replacement(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces `path` once it is written and on the disk; after an error, `path` is unchanged.

    Other processes see the old or the new contents, and may replace the same file.
    """
    work = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}")
    try:
        with work.open("w", newline="") as file:
            yield file
        sync(work)
        work.replace(path)
    except BaseException:
        work.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file or folder to disk. Some network and FUSE file systems cannot flush folders; they are skipped."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(handle)


def free_path(path: Path) -> Path:
    """Return a path that does not exist yet: the given one, or one with a number such as ``path_2``."""
    found = path
    number = 1
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}_{number}")
    return found


class FolderInUse(UsageError):
    """Another process holds the lock of a folder."""


@contextlib.contextmanager
def hold(folder: Path, what: str, patience: float = 30.0) -> Iterator[None]:
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
