"""A folder of this process's own for Ray's session: sockets, logs and what is too large for memory."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PREFIX = "interreplay_"
_LONGEST = 107 - len("/r/session_2026-01-31_12-00-00_000000_4194304/sockets/plasma_store.1")
"""Bytes of a folder's name that leave room for Ray's sockets in it: the system takes 107."""
_SETTLED = 60.0
"""Seconds after which a folder without a lock was left behind, and is not just being made."""


def private_folder(end: Callable[[], object] = lambda: None) -> str | None:
    """Make a folder that only this user can read, and that goes at the program's end.

    Those that killed processes left behind are removed.

    Args:
        end: Ends who writes there, before the folder is removed.

    Returns:
        Its path; None where ``RAY_TMPDIR`` says where Ray is to write.
    """
    if "RAY_TMPDIR" in os.environ:
        return None
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) + len(f"/{PREFIX}12345678") > _LONGEST:
        parent = Path("/tmp")
    _sweep(parent)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    lock = os.open(Path(folder, ".lock"), os.O_CREAT | os.O_RDWR)  # let go of by the system, with this process
    _locks(lock)
    atexit.register(_remove, folder, end)
    return f"{folder}/r"  # Ray makes it, for everybody, within what is for this user


def _remove(folder: str, end: Callable[[], object]) -> None:
    """End Ray, which would write on, and remove its folder."""
    end()
    for _ in range(20):  # its last processes end meanwhile
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


def _sweep(parent: Path) -> None:
    """Remove the folders of processes of this user that are gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # of another user, or just removed by somebody else
            about = folder.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _SETTLED:
                continue
            lock = os.open(folder / ".lock", os.O_RDWR)
            try:
                if _locks(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _locks(file: int) -> bool:
    """Return whether a lock could be taken, which nobody else has then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
