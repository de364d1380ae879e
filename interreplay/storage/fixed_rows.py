"""Read-only rows, for example in a memory-mapped file that several processes share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from interreplay.errors import UsageError
from interreplay.storage.columns import get_state_columns
from interreplay.storage.frame_stacks import FrameStacks
from interreplay.storage.linked_rows import LinkedRows
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions, as_tensor


class FixedStorage(Storage):
    """A read-only `Storage`, made from a state.

    Arrays are not copied, so several processes share memory-mapped arrays. The state of this storage contains the key
    and the number of rows only.

    Args:
        state: Result of `Storage.state_dict`, with rows and without running episodes.
        key: Identifies the rows; `load_state_dict` compares it.
        name: Name of the data in error messages.
        gamma: Discount factor per step.
    """

    def __init__(self, state: dict[str, Any], key: str, name: str, gamma: float = 0.99):
        super().__init__(int(state["written"]), gamma)
        self.key = key
        self.name = name
        self.written = int(state["written"])
        self._stacks = FrameStacks.from_state(state, self.capacity, shared=True)
        self._chain = LinkedRows(self.capacity, get_state_columns(state))
        self._chain.records.rows = as_tensor(state["rows"])
        self._chain.tails.records.rows = as_tensor(state["tails"]["rows"])
        self._chain.tails.used = int(state["tails"]["used"])

    def write(self, transitions: Transitions, slots: Tensor | None = None) -> Tensor:
        raise ValueError(f"cannot add transitions to offline data {self.name}: its rows are read-only")

    def state_dict(self) -> dict[str, Any]:
        return {"key": self.key, "written": self.written}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Check that a state has the same rows."""
        if state.get("key") != self.key:
            raise UsageError(
                f"offline data {self.name} has the key {self.key} and {len(self):,} rows, the state has the key "
                f"{state.get('key')} and {int(state.get('written', 0)):,} rows; expected the same data"
            )
