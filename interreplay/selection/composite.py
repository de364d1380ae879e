"""Selectors made of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from interreplay.part import Context
from interreplay.selection.base import Selector, Stored
from interreplay.storage.columns import Columns
from interreplay.storage.read_views import ReadView


class Composite(Selector):
    """A selector that hands on to others what a buffer says; what it draws of theirs is up to each kind.

    Args:
        inner: These, by name.
    """

    def __init__(self, inner: Mapping[str, Selector]):
        self.selectors = dict(inner)
        parts = self.selectors.values()
        self.columns_wanted = frozenset[str]().union(*(part.columns_wanted for part in parts))
        self.scores_wanted = frozenset[str]().union(*(part.scores_wanted for part in parts))
        self.needs = frozenset[str]().union(*(part.needs for part in parts))
        self.by_write_order = any(part.by_write_order for part in parts)

    def check(self, columns: Columns) -> None:
        for part in self.selectors.values():
            part.check(columns)

    def connect(self, context: Context) -> None:
        for part in self.selectors.values():
            part.connect(context)

    def evict(self, stored: Stored, slots: Tensor) -> None:
        for part in self.selectors.values():
            part.evict(stored, slots)

    def observe(self, stored: Stored, slots: Tensor) -> None:
        for part in self.selectors.values():
            part.observe(stored, slots)

    def use_view(self, view: ReadView) -> None:
        super().use_view(view)
        for part in self.selectors.values():
            part.use_view(view)

    def anneal(self, progress: float) -> None:
        for part in self.selectors.values():
            part.anneal(progress)

    def nbytes(self, capacity: int, features: int) -> int:
        return sum(part.nbytes(capacity, features) for part in self.selectors.values())

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.selectors.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self.selectors.items():
            part.load_state_dict(state[name])
