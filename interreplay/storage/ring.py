"""Storage: a ring of transitions that stores each observation once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import UsageError, check_number
from interreplay.storage.columns import (
    Columns,
    cast,
    check_finite,
    get_column_name,
    get_columns,
    get_state_columns,
    signature,
)
from interreplay.storage.frame_stacks import FrameStacks
from interreplay.storage.linked_rows import LinkedRows
from interreplay.storage.row_table import RowTable
from interreplay.transitions import Observation, Transitions, as_tensor, join_parts, observation_parts


class Storage:
    """A ring of `capacity` transitions in main memory.

    The next observation of a row is the observation of the row that continues it, found through a link. It is stored
    separately only if nothing continues the row (yet). Slots are reused in the order of writing: the row with write
    number w is in slot w mod capacity and exists while w ≥ written − capacity.

    A storage reads single steps; see `interreplay.storage.read_views` for longer ones.

    Args:
        capacity: Number of transitions, positive.
        gamma: Discount factor per step, for the ``discounts`` of ``storage[slots]``.
    """

    device = torch.device("cpu")

    def __init__(self, capacity: int, gamma: float = 0.99):
        check_number("capacity", capacity, 1, 2**31 - 1, whole=True)
        check_number("gamma", gamma, 0, 1)
        self.capacity = int(capacity)
        self.gamma = float(gamma)
        self.written = 0
        self._chain: LinkedRows | None = None
        self._stacks = FrameStacks()
        self._signature: list[tuple[str, tuple[int, ...], torch.dtype]] = []

    # -- Contents ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns; 0 before the first row is added."""
        if self._chain is None:
            return 0
        return self._chain.nbytes + self._stacks.nbytes

    @property
    def columns(self) -> Columns:
        """Columns of a stored row; empty before the first row is added."""
        if self._chain is None:
            return {}
        return self._stacks.restored_columns(self._chain.columns)

    @property
    def chain(self) -> LinkedRows:
        if self._chain is None:
            raise ValueError("the storage is empty; add transitions first")
        return self._chain

    @property
    def records(self) -> RowTable:
        return self.chain.records

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Return the write numbers of the rows in `slots`, int64, in the shape of `slots`."""
        newest = self.written - 1
        return newest - torch.remainder(newest - slots, self.capacity)

    def successor(self, slots: Tensor) -> Tensor:
        """Return the slots of the rows that continue the rows in `slots` ``(n,)``; −1 for none."""
        return self.records.column("link").index_select(0, slots).long().clamp_(min=-1)

    @property
    def broken_links(self) -> int:
        """Number of rows without an episode id that did not continue the previous row although it ended no episode."""
        if self._chain is None:
            return 0
        return self._chain.episodes.broken

    def column(self, name: str) -> Tensor:
        """Return a column of all slots ``(capacity, ...)``, named as in `Transitions.columns`; read-only."""
        return self.records.column(name)

    def features(self, slots: Tensor) -> Tensor:
        """Return z = [s; a] of `slots` ``(n,)``, flattened: float32 ``(n, d)``; with goals, [s; desired goal; a]."""
        if not self._stacks.frames:
            return torch.from_numpy(self.records.flat(slots.numpy(), self.chain.features)).float()
        columns = self.records.take(slots, self.chain.features)
        for name, frames in self._stacks.frames.items():
            if get_column_name(name) in columns:
                columns[get_column_name(name)] = frames.get(columns[get_column_name(name)])
        return torch.cat([part.reshape(len(slots), -1).float() for part in columns.values()], dim=1)

    def restore_frames(self, observation: Observation) -> Observation:
        """Return observations as they were added, from the columns of records: numbers of frames become stacks."""
        if not self._stacks.frames:
            return observation
        parts = dict(observation_parts(observation))
        for name, frames in self._stacks.frames.items():
            parts[name] = frames.get(parts[name])
        return join_parts(parts)

    # -- Reading -----------------------------------------------------------------------------------

    def __getitem__(self, slots: Tensor) -> Transitions:
        """Return the single-step transitions in `slots`, int64 of any shape, with ``discounts``.

        Raises:
            IndexError: If a slot is negative or beyond the capacity.
        """
        return self.read(slots, self.gamma)

    def read(self, slots: Tensor, gamma: float) -> Transitions:
        """Return the transitions in `slots` as `__getitem__` does, with discounts γ·(1 − terminated) for another γ."""
        flat = slots.reshape(-1)
        self.check_slots(flat)
        rows = self.read_records(flat, gamma)
        if self._stacks.frames:
            rows = self._stacks.restore(rows)
        if slots.dim() == 1:
            return rows
        return rows.map(lambda column: column.reshape(slots.shape + column.shape[1:]))

    def read_with_neighbors(self, slots: Tensor, others: Tensor, gamma: float) -> tuple[Transitions, Transitions]:
        """Return `read` of slots ``(n,)`` and of others ``(n, k)``, in the time of a single read.

        For a few hundred rows, most of the time of a read is the overhead of its calls.
        """
        if self._stacks.frames:
            return self.read(slots, gamma), self.read(others, gamma)
        n = len(slots)
        both = torch.cat([slots, others.reshape(-1)])
        self.check_slots(both)
        rows, following = self.chain.read(both)
        shape = tuple(others.shape) + rows.shape[1:]
        neighbors = self.chain.transitions(rows[n:].reshape(shape), following[n:].reshape(shape), gamma)
        return self.chain.transitions(rows[:n], following[:n], gamma), neighbors

    def read_records(self, slots: Tensor, gamma: float) -> Transitions:
        """Return single steps in unchecked `slots` ``(n,)``, with numbers of frames instead of stacks."""
        return self.chain.transitions(*self.chain.read(slots), gamma)

    def check_slots(self, slots: Tensor) -> None:
        """Raise IndexError if one of `slots` ``(n,)`` is negative or beyond the capacity."""
        if slots.numpy().view(np.uint64).max(initial=0) >= self.capacity:  # negative slots become huge
            raise IndexError(f"slots are {int(slots.min())} to {int(slots.max())}; expected 0 to {self.capacity - 1}")

    # -- Writing -----------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> Tensor:
        """Store transitions in place of the oldest rows.

        Args:
            transitions: Columns of length n, at most `capacity`.

        Returns:
            Their slots ``(n,)`` int64.

        Raises:
            NonFiniteError: If a column contains NaN or infinity; nothing is stored then.
            ValueError: If there are more than `capacity` rows, or their columns differ from the stored ones.
        """
        if len(transitions) > self.capacity:
            raise ValueError(
                f"{len(transitions)} transitions do not fit into a capacity of {self.capacity}; add them in parts"
            )
        if not len(transitions):
            return self.next_replaced(0)
        return self.write(self.cast(transitions))

    def write(self, transitions: Transitions) -> Tensor:
        """Store 1 to `capacity` rows returned by `cast`; return their slots ``(n,)``."""
        n = len(transitions)
        if self._chain is None:
            columns = self._stacks.begin(transitions, self.capacity)
            self._chain = LinkedRows(self.capacity, columns)
        self._signature = self._signature or signature(transitions.columns())
        start = self.written % self.capacity
        room = min(n, self.capacity - start)
        parts = [transitions]
        if room < n:
            parts = [transitions[:room], transitions[room:]]
        for part in parts:
            if self._stacks.frames:
                self._stacks.append(self._chain, part, self.written)
            else:
                self._chain.append(part, self.written)
            self.written += len(part)
        return self.consecutive_slots(start, n)

    def next_replaced(self, count: int) -> Tensor:
        """Return the slots ``(m,)`` of the rows that the next `count` rows, at most `capacity`, will replace."""
        first = max(self.written, self.capacity)
        last = self.written + count
        start = first % self.capacity
        return self.consecutive_slots(start, max(0, last - first))

    def consecutive_slots(self, start: int, count: int) -> Tensor:
        """Return `count` consecutive slots ``(count,)`` of the ring."""
        slots = torch.arange(start, start + count)
        if start + count > self.capacity:
            slots %= self.capacity
        return slots

    def cast(self, transitions: Transitions) -> Transitions:
        """Return transitions in the stored dtypes.

        Raises:
            NonFiniteError: If a column contains NaN or infinity, or a number too large for the stored dtype.
            ValueError: If their columns, shapes or dtypes differ from those of stored rows.
        """
        transitions, columns = self.convert(transitions)
        check_finite(columns)
        return transitions

    def convert(self, transitions: Transitions) -> tuple[Transitions, dict[str, Tensor]]:
        """Return `cast` of transitions and its columns, without looking for numbers that are not finite."""
        columns = transitions.columns()
        if self._signature != signature(columns):
            transitions = cast(transitions, self.columns or get_columns(transitions))
            columns = transitions.columns()
        return transitions, columns

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """End running episodes that no rows will continue: their newest rows become truncated.

        Args:
            episodes: Episode ids; ids of other episodes are ignored.
        """
        if self._chain is None:
            return
        for episode in episodes:
            self._chain.truncate(int(episode))
            self._stacks.end(int(episode))

    # -- State -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state; arrays share memory with the storage."""
        state: dict[str, Any] = {"written": self.written, "capacity": self.capacity}
        if self._chain is not None:
            state |= self._chain.state(len(self)) | self._stacks.state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: If the state has another capacity or other columns.
        """
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the state has capacity {state['capacity']}; this storage has {self.capacity}")
        columns = get_state_columns(state)
        stacks = FrameStacks.from_state(state, self.capacity)
        if columns and self.columns not in ({}, stacks.restored_columns(columns)):
            raise ValueError(f"the state has the columns {columns}; expected the stored columns {self.columns}")
        self.written = int(state["written"])
        self._chain = None
        self._signature = []
        self._stacks = stacks
        if columns:
            self._chain = LinkedRows(self.capacity, columns)
            self._chain.load(state)


class FixedStorage(Storage):
    """A read-only `Storage`, made from a state, for example in a memory-mapped file.

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

    def write(self, transitions: Transitions) -> Tensor:
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
