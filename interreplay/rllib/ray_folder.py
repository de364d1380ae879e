"""A folder of this process's own for Ray's session: sockets, logs and what is too large for memory."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from interreplay.errors import UsageError

PREFIX = "interreplay_"
_LONGEST = 107 - len("/r/session_2026-01-31_12-00-00_000000_4194304/sockets/plasma_store.1")
"""Bytes of a folder's name that leave room for Ray's sockets in it: the system takes 107."""
_MARGIN = 16 * 1024**2
"""Bytes beside the object store in its file."""
_SETTLED = 60.0
"""Seconds after which a folder without a lock was left behind, and is not just being made."""


def check_start(object_store: int) -> None:
    """Reject what Ray cannot start with, and would report with a traceback.

    Args:
        object_store: Bytes of Ray's object store, which is a file.

    Raises:
        UsageError: An argument, the current folder or Ray's folder is not UTF-8, the name of Ray's folder is too long,
            or the limit on the size of files is too small.
    """
    folder = os.environ.get("RAY_TMPDIR", "")
    for what, text in (*(("argument", word) for word in sys.argv), ("folder", os.getcwd()), ("RAY_TMPDIR", folder)):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the {what} {text!r} is not UTF-8; Ray expects UTF-8 (PYTHONUTF8=1 reads arguments as UTF-8 where the "
                "locale is another one)"
            ) from None
    longest = 107 - len(f"/ray/session_2026-01-31_12-00-00_000000_{os.getpid()}/sockets/plasma_store")
    length = len(os.fsencode(os.path.abspath(folder))) if folder else 0
    if length > longest:
        raise UsageError(
            f"RAY_TMPDIR {folder} has {length} bytes; expected at most {longest}, so that the names of Ray's sockets "
            "fit into the 107 bytes that the system allows"
        )
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit not in (resource.RLIM_INFINITY, -1) and limit < object_store + _MARGIN:
        raise UsageError(
            f"the size of files is limited to {limit / 1e6:.3g} MB (ulimit -f); Ray needs at least "
            f"{(object_store + _MARGIN) / 1e6:.3g} MB for its object store"
        )


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
