"""Keep the transitions of a run in its folder, and recover those after a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.environments.spaces import columns_from_spaces
from interreplay.errors import UsageError
from interreplay.experience.store import ExperienceStore
from interreplay.experience.store.header import width
from interreplay.experience.store.reader import find_store
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.storage.columns import is_observation

MOST_ROWS = 1_000_000
MOST_BYTES = 2 << 30
"""Limits of ``--keep_experience auto``."""


def rows_to_keep(settings: SimpleNamespace, algo: Any) -> int:
    """Return the maximum number of rows that a run keeps, 0 for none."""
    import torch

    if ALGORITHMS[settings.trainer].unrolls or settings.updates is not None:
        return 0
    if settings.keep_experience != "auto":
        return settings.keep_experience
    size = 0
    for name, (shape, dtype) in columns_from_spaces(*algo.single_spaces).items():
        numbers = torch.empty(0, dtype=dtype).numpy()
        size += width(shape, numbers.dtype) * (1 + is_observation(name))
    return max(1, min(MOST_ROWS, MOST_BYTES // size))


def recover(algo: Any, folder: Path, notify: Callable[[str], object]) -> int:
    """Add the recorded rows after the restored checkpoint to the replay buffer of a run, and return their number."""
    place = find_store(folder)
    if place is None:
        raise UsageError(f"--recover: {folder} has no recorded experience; --keep_experience N records it")
    store = ExperienceStore(place)
    store.check()
    begun_at = algo.env_steps
    later = store.column("step") > begun_at
    if not later.any():
        notify(f"no rows of experience after step {begun_at:,} to recover")
        return 0
    start = int(later.argmax())
    try:
        rows = algo.recover(store.portions(start))
    except ValueError as error:
        raise UsageError(f"--recover: {error}") from error
    notify(
        f"recovered {rows:,} rows after step {begun_at:,}; the run continues at step {algo.env_steps:,} with new "
        "episodes, so it differs from an uninterrupted run"
    )
    return rows
