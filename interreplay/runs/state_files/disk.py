"""Files that survive full disks and power failures."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


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
