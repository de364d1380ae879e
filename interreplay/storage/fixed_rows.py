"""Rows that were stored once and stay as they are: of a file that is mapped into memory, shared by all who read it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.storage.columns import columns_of_state
from interreplay.storage.frame_stacks import FrameStacks
from interreplay.storage.linked_rows import LinkedRows
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions, as_tensor


class FixedStorage(Storage):
    """The state of a `Storage` to draw from, which takes no further rows.

    On the processor its arrays are used where they lie: where these are maps of files, memory holds them once for all
    processes. Its own state is their key alone.

    Args:
        state: What `Storage.state_dict` returned, with rows and no running episodes.
        key: Of its contents.
        name: What it is called in messages.
        device: Torch device of the columns; another than the processor gets a copy.
        gamma: Discount factor per step, for the ``discounts`` of ``storage[slots]``.
    """

    def __init__(
        self, state: dict[str, Any], key: str, name: str, device: str | torch.device = "cpu", gamma: float = 0.99
    ):
        super().__init__(int(state["written"]), device, gamma)
        self.key, self.name, self.written = key, name, int(state["written"])
        self._stacks = FrameStacks.of_state(state, self.capacity, self.device, shared=True)
        self._chain = LinkedRows(self.capacity, columns_of_state(state), self.device)
        self._chain.records.rows = as_tensor(state["rows"]).to(self.device)
        self._chain.tails.records.rows = as_tensor(state["tails"]["rows"]).to(self.device)
        self._chain.tails.used = int(state["tails"]["used"])

    def write(self, transitions: Transitions, slots: Tensor | None = None) -> Tensor:
        raise ValueError(f"offline data {self.name} cannot be added to")

    def state_dict(self) -> dict[str, Any]:
        """Return the key, by which `load_state_dict` knows the same rows."""
        return {"key": self.key, "written": self.written}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Check that a state is of the same rows.

        Raises:
            ValueError: When they are others.
        """
        if state.get("key") != self.key:
            raise ValueError(
                f"offline data {self.name} has the key {self.key}, {len(self):,} rows; the state is of the key "
                f"{state.get('key')}, {int(state.get('written', 0)):,} rows: it was changed, or is another one"
            )
