"""Modules of the current folder, such as one with environments of one's own: found, but after installed ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LAST = "INTERREPLAY_CURRENT_FOLDER_LAST"
"""Environment variable with which our commands ask Ray's workers for the order of `search_last`."""


def search_here() -> None:
    """Let modules of the current folder be imported, where no other folder has one of that name."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())


def search_last() -> None:
    """Put the current folder last in a Ray worker of our commands, where Ray put it first."""
    if LAST in os.environ and Path(sys.argv[0]).name == "default_worker.py":
        here = {"", os.getcwd()}
        sys.path[:] = [*(path for path in sys.path if path not in here), os.getcwd()]
