"""Storage: a ring of transitions that keeps each observation once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.storage.columns import (
    Columns,
    cast,
    check_discount,
    check_finite,
    column_of,
    columns_of,
    columns_of_state,
    signature,
)
from interreplay.storage.frame_stacks import FrameStacks
from interreplay.storage.linked_rows import LinkedRows
from interreplay.storage.row_table import RowTable, shares_numpy
from interreplay.transitions import Observation, Transitions


class Storage:
    """A ring of `capacity` transitions on a device.

    The next observation of a row is the observation of the row that continues it, found through a link;
    only where nothing continues a row (yet) is it kept apart. Slots are reused in the order of writing, so
    the row with write number w lies in slot w mod capacity and is stored while w ≥ written − capacity: one
    number tells both where a row is and whether it still exists.

    A storage reads single steps; longer ones are the business of `interreplay.storage.read_views`.

    Args:
        capacity: Number of transitions, positive.
        device: Torch device of the columns.
        gamma: Discount factor per step, for the ``discounts`` of ``storage[slots]``.
    """

    def __init__(self, capacity: int, device: str | torch.device = "cpu", gamma: float = 0.99):
        check_number("capacity", capacity, 1, 2**31 - 1, whole=True)
        check_discount(gamma)
        self.capacity, self.device, self.gamma = int(capacity), torch.device(device), float(gamma)
        self.written = 0
        self._chain: LinkedRows | None = None
        self._stacks = FrameStacks()
        self._signature: list[tuple[str, tuple[int, ...], torch.dtype]] = []

    # -- what is stored ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes taken by the columns; 0 before the first row is added."""
        return self._chain.nbytes + self._stacks.nbytes if self._chain is not None else 0

    @property
    def columns(self) -> Columns:
        """What a stored row is made of; empty before the first row is added."""
        return self._stacks.restored_columns(self._chain.columns) if self._chain is not None else {}

    @staticmethod
    def nbytes_of(capacity: int, columns: Columns) -> int:
        """Return bytes of `capacity` rows of these columns."""
        return capacity * RowTable(0, columns, torch.device("cpu")).width

    @property
    def chain(self) -> LinkedRows:
        if self._chain is None:
            raise ValueError("the storage is empty; add transitions first")
        return self._chain

    @property
    def records(self) -> RowTable:
        return self.chain.records

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Write numbers of the rows that lie in `slots` now, the shape of `slots`, int64."""
        newest = self.written - 1
        return newest - torch.remainder(newest - slots, self.capacity)

    def successor(self, slots: Tensor) -> Tensor:
        """Return slots of the rows that continue those in `slots` ``(n,)``, −1 where none does."""
        return self.records.column("link").index_select(0, slots).long().clamp_(min=-1)

    @property
    def broken_links(self) -> int:
        """Rows added without an episode id that did not continue the row before, though that one ended nothing."""
        return self._chain.episodes.broken if self._chain is not None else 0

    def column(self, name: str) -> Tensor:
        """Return a column of all slots ``(capacity, ...)``, named as in `Transitions.columns`; not to be written to."""
        return self.records.column(name)

    def features(self, slots: Tensor) -> Tensor:
        """Return z = [s; a] of `slots` ``(n,)``, flattened: float32 ``(n, d)``; with goals, [s; desired goal; a]."""
        if shares_numpy(self.device) and not self._stacks:
            return torch.from_numpy(self.records.flat(slots.numpy(), self.chain.features)).float()
        parts = self._stacks.restore_parts(self.records.take(slots, self.chain.features)).values()
        return torch.cat([part.reshape(len(slots), -1).float() for part in parts], dim=1)

    def restore_frames(self, observation: Observation) -> Observation:
        """Return observations as they were added, from columns of the records: numbers of frames become stacks."""
        return self._stacks.restore_observation(observation)

    def next_observation_part(self, slots: Tensor, part: str) -> Tensor:
        """Return the named part of next_obs of the rows in `slots` ``(n,)``, one step on: ``(n, *shape)``."""
        links = self.records.column("link").index_select(0, slots)
        return self.chain.observations(links, [name := column_of(part)])[name]

    # -- reading ----------------------------------------------------------------------------------

    def __getitem__(self, slots: Tensor) -> Transitions:
        """Return the single-step transitions in `slots`, int64 of any shape, with ``discounts``.

        Raises:
            IndexError: When a slot is negative or beyond the capacity.
        """
        return self.read(slots, self.gamma)

    def read(self, slots: Tensor, gamma: float) -> Transitions:
        """Return what `__getitem__` does, with discounts γ·(1 − terminated) of the γ given."""
        flat = slots if slots.dim() == 1 else slots.reshape(-1)
        self.check_slots(flat)
        rows = self.read_records(flat, gamma)
        rows = self._stacks.restore(rows) if self._stacks else rows
        return rows if slots.dim() == 1 else rows.map(lambda column: column.reshape(slots.shape + column.shape[1:]))

    def read_with_neighbors(self, slots: Tensor, others: Tensor, gamma: float) -> tuple[Transitions, Transitions]:
        """Return `read` of slots ``(n,)`` and of others ``(n, k)``, for what one of these costs.

        Of some hundred rows most of a read is the number of its calls, and every batch with neighbors needs both.
        """
        if self._stacks:
            return self.read(slots, gamma), self.read(others, gamma)
        n, both = len(slots), torch.cat([slots, others.reshape(-1)])
        self.check_slots(both)
        rows, following = self.chain.read(both)
        shape = tuple(others.shape) + rows.shape[1:]
        beside = self.chain.transitions(rows[n:].reshape(shape), following[n:].reshape(shape), gamma)
        return self.chain.transitions(rows[:n], following[:n], gamma), beside

    def read_records(self, slots: Tensor, gamma: float) -> Transitions:
        """Return single steps in `slots` ``(n,)``, which are not checked; stacks are numbers of frames."""
        return self.chain.transitions(*self.chain.read(slots), gamma)

    def check_slots(self, slots: Tensor) -> None:
        """Raise IndexError when one of `slots` ``(n,)`` is negative or beyond the capacity; another device says so."""
        if slots.device.type != "cpu":  # to look would be to wait
            return
        if slots.numpy().view(np.uint64).max(initial=0) >= self.capacity:  # negative ones look huge
            raise IndexError(f"slots are {int(slots.min())} to {int(slots.max())}; expected 0 to {self.capacity - 1}")

    # -- writing ----------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> Tensor:
        """Store transitions, the oldest rows making room.

        Args:
            transitions: Columns of length n, at most `capacity`.

        Returns:
            Their slots ``(n,)`` int64.

        Raises:
            NonFiniteError: When a column holds NaN or infinity; nothing is stored then.
            ValueError: When there are more than `capacity` rows, or they are not made as those stored before.
        """
        if len(transitions) > self.capacity:
            raise ValueError(
                f"{len(transitions)} transitions do not fit into a capacity of {self.capacity}; add them in parts"
            )
        return self.write(self.cast(transitions)) if len(transitions) else self.next_replaced(0)

    def write(self, transitions: Transitions, slots: Tensor | None = None) -> Tensor:
        """Store what `cast` returned, 1 to `capacity` rows; returns their slots ``(n,)``, which a caller may know."""
        n = len(transitions)
        if self._chain is None:
            columns = self._stacks.begin(transitions, self.capacity, self.device)
            self._chain = LinkedRows(self.capacity, columns, self.device)
        self._signature = self._signature or signature(transitions.columns())
        start = self.written % self.capacity
        room = min(n, self.capacity - start)
        for part in (transitions,) if room == n else (transitions[:room], transitions[room:]):
            if self._stacks:
                self._stacks.append(self._chain, part, self.written)
            else:
                self._chain.append(part, self.written)
            self.written += len(part)
        if slots is not None:
            return slots
        slots = torch.arange(start, start + n, device=self.device)
        return slots if room == n else slots % self.capacity

    def next_replaced(self, count: int) -> Tensor:
        """Return the slots ``(m,)`` of the stored rows that the next `count` rows, at most `capacity`, will replace."""
        first, last = max(self.written, self.capacity), self.written + count
        start = first % self.capacity
        slots = torch.arange(start, start + max(0, last - first), device=self.device)
        return slots if start + count <= self.capacity else slots % self.capacity

    def cast(self, transitions: Transitions) -> Transitions:
        """Return the same transitions in the stored dtypes.

        Raises:
            NonFiniteError: When a column holds NaN or infinity, or a number too large for the stored dtype.
            ValueError: When their columns, shapes or dtypes are not those of the rows stored before.
        """
        columns = transitions.columns()
        if self._signature != signature(columns):
            transitions = cast(transitions, self.columns or columns_of(transitions))
            columns = transitions.columns()
        check_finite(columns)
        return transitions

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """End running episodes that nothing will continue: their newest rows become truncated.

        Args:
            episodes: Ids; those that are not running are passed over.
        """
        for episode in episodes if self._chain is not None else ():
            self.chain.truncate(int(episode))
            self._stacks.end(int(episode))

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything stored; the arrays share memory with the storage."""
        state: dict[str, Any] = {"written": self.written, "capacity": self.capacity}
        return state | ({**self._chain.state(len(self)), **self._stacks.state()} if self._chain is not None else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ValueError: When the state is that of another capacity or of other columns.
        """
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the state has capacity {state['capacity']}; this storage has {self.capacity}")
        columns = columns_of_state(state)
        stacks = FrameStacks.of_state(state, self.capacity, self.device)
        if columns and self.columns not in ({}, stacks.restored_columns(columns)):
            raise ValueError(f"the state has the columns {columns}; stored are {self.columns}")
        self.written = int(state["written"])
        self._chain, self._signature, self._stacks = None, [], stacks
        if columns:
            self._chain = LinkedRows(self.capacity, columns, self.device)
            self._chain.load(state)
