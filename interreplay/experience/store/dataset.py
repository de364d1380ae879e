"""Experience stores as datasets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interreplay.experience.offline_data.dataset import Dataset, readable
from interreplay.experience.store.reader import ExperienceStore
from interreplay.transitions import Transitions


def open_store(name: str, folder: Path) -> Dataset:
    """Return the dataset of a store.

    Args:
        name: Name of the dataset in messages.
        folder: Folder of the store.

    Raises:
        UsageError: The store is damaged.
    """
    with readable(name):
        store = ExperienceStore(folder)

        def rows() -> Iterator[Transitions]:
            store.check()
            yield from store.portions()

        return Dataset(
            name,
            store.files,
            rows,
            store.rows,
            store.header.observation_space,
            store.header.action_space,
            normalized=True,
            env=store.header.env,
            id=store.header.id,
            facts=lambda: {name: store.column(name) for name in ("version", "time")},
        )
