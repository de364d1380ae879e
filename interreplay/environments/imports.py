"""Imports without delays and log messages."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection inside the block, for quick imports of PyTorch and Ray.

    While modules are imported, it searches all earlier ones repeatedly and finds almost nothing, which takes about a
    sixth of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:
                # Together, they move all objects to the oldest generation, which the next collections do not search.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextlib.contextmanager
def suppress_logged_warnings() -> Iterator[None]:
    """Suppress log messages up to the level of warnings inside the block."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
