"""A folder that one process at a time works in."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from interreplay.errors import UsageError

LOCK = ".lock"


@contextlib.contextmanager
def held(folder: Path, what: str, patience: float = 30.0) -> Iterator[None]:
    """Hold a folder against other processes; the system lets go of it when this one ends, however it ends.

    Where the file system knows no locks, nothing is held.

    Args:
        folder: What to hold.
        what: What works in it, for the error message.
        patience: Seconds to wait for another process, such as one that was killed and is not quite gone.

    Raises:
        UsageError: Another process holds it.
    """
    with (folder / LOCK).open("a") as file:
        end = time.monotonic() + patience
        while not _locked(file):
            if time.monotonic() > end:
                raise UsageError(f"another process is in {folder}: {what} runs there already")
            time.sleep(0.2)
        yield


def _locked(file: TextIO) -> bool:
    """Return whether the file is locked now, or cannot be."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
