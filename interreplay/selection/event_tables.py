"""Stratified selection from tables of steps that led to events."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.selection.base import Selector, SlotStore
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions, as_bools

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
REWARD = re.compile(r"\s*reward\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
Event = Callable[[Storage, Tensor], Tensor]
"""Maps a storage and slots ``(n,)`` to whether the event happened at these steps, bool ``(n,)``."""


def make_event(given: str | Callable[[Transitions], Tensor]) -> Event:
    """Return the event that a description or a callable defines.

    Args:
        given: ``"reward > 0"`` with any comparison and number, ``"terminated"``, ``"truncated"``, ``"success"``, or a
            callable of rows ``(n, ...)`` that returns bool ``(n,)``.
    """
    if callable(given):
        return CallableEvent(given)
    if given in ("terminated", "truncated"):
        return functools.partial(_column_event, given, operator.ne, 0.0)
    if given == SUCCESS_COLUMN:
        return functools.partial(_column_event, f"extras.{SUCCESS_COLUMN}", operator.ne, 0.0)
    found = REWARD.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        accepted = "'reward > 0' (or another comparison), 'terminated', 'truncated', 'success' or a callable"
        raise ValueError(f"the event is {given!r}; expected {accepted}")
    return functools.partial(_column_event, "rewards", COMPARISONS[found[1]], float(found[2]))


class CallableEvent:
    """An event that a function of rows defines, with checks of what it returns."""

    def __init__(self, condition: Callable[[Transitions], Any]):
        self._condition = condition

    def __call__(self, storage: Storage, slots: Tensor) -> Tensor:
        return self.evaluate(storage[slots])

    def evaluate(self, rows: Transitions) -> Tensor:
        """Return whether the event happened at rows ``(n, ...)``, bool ``(n,)``.

        Raises:
            PartError: The function returned anything other than one bool, 0 or 1 per row.
        """
        returned = self._condition(rows)
        name = getattr(self._condition, "__qualname__", type(self._condition).__name__)
        return as_bools(f"the event {name}", returned, rows.rewards)


def _column_event(
    column: str, compare: Callable[[Any, float], Any], number: float, storage: Storage, slots: Tensor
) -> Tensor:
    return compare(storage.column(column).index_select(0, slots), number)


class EventTables(Selector):
    """Draws fixed shares of each batch from all rows and from one table per event of the steps that led to it.

    Kompella et al. 2023, arXiv:2211.00576. When an event happens at a step, this step and the `history` previous steps
    of the episode join the table of the event. A table stores slots and drops them when their rows are overwritten.
    (The authors' tables have their own capacities, and keep rows that have left the table of all rows.) Each table
    contributes ⌊share·n⌋ rows or one more, drawn uniformly with replacement. A table with fewer rows than its share of
    the batch contributes none, and the other shares grow in proportion. There are no importance weights: if an action
    leads to an event only sometimes, the event is overrepresented. The authors derive weights that correct this, and
    use long histories instead.

    Args:
        events: One or more events, as accepted by `make_event`.
        shares: Share of each table, at least 0; the remainder is drawn from all rows. None for equal shares.
        default_share: Share drawn from all rows if `shares` is None.
        history: τ, the number of steps before an event.

    Raises:
        ValueError: If an argument is out of range.
    """

    by_write_order = True

    def __init__(
        self,
        events: Sequence[str | Callable[[Transitions], Tensor]] = ("reward > 0", "terminated"),
        shares: Sequence[float] | None = None,
        default_share: float = 0.5,
        history: int = 50,
    ):
        given: list[Any] = [events]
        if not isinstance(events, str) and not callable(events):
            given = list(events)
        self.events = list(map(make_event, given))
        if not given:
            raise ValueError(f"events are {given}; expected at least one event")
        check_number("history", history, 0, whole=True)
        check_number("default_share", default_share, 0, 1)
        each_share = [(1.0 - default_share) / len(given)] * len(given)
        if shares is not None:
            for share in shares:
                check_number("shares: a share", share, 0, 1)
            each_share = list(map(float, shares))
        if len(each_share) != len(given) or math.fsum(each_share) > 1 + 1e-9:
            raise ValueError(
                f"shares are {each_share}; expected one share >= 0 for each of {len(given)} events, at most 1 in total"
            )
        self.shares = np.array([max(0.0, 1.0 - math.fsum(each_share)), *each_share])
        self.history = int(history)
        self.follows_episodes = self.history > 0
        if SUCCESS_COLUMN in given:
            self.columns_wanted = frozenset({SUCCESS_COLUMN})
            self.needs = frozenset({SUCCESS_COLUMN})
        self._tables: list[SlotSet] = []
        self._tails: dict[int, deque[int]] = {}  # write numbers of the newest rows of each running episode

    # -- tables -----------------------------------------------------------------------------------

    def check_rows(self, rows: Transitions) -> None:
        discounts = self.view.gamma * (~rows.terminated).to(rows.rewards.dtype)
        rows = rows.replace(discounts=discounts)  # stored rows have them
        for event in self.events:
            if isinstance(event, CallableEvent):
                event.evaluate(rows.map(Tensor.clone))  # the function may change them

    def observe(self, storage: SlotStore, slots: Tensor) -> None:
        assert isinstance(storage, Storage), "events happen at stored transitions"
        if not self._tables:
            self._tables = [SlotSet(storage.capacity) for _ in self.events]
        happened = []
        for event in self.events:
            happened.append(event(storage, slots).tolist())
        ends = (storage.column("terminated")[slots] | storage.column("truncated")[slots]).tolist()
        episodes = storage.column("episode")[slots].tolist()
        writes = storage.write_numbers(slots).tolist()
        oldest = storage.written - storage.capacity
        for episode, tail in list(self._tails.items()):
            if tail[-1] < oldest:
                del self._tails[episode]  # no row continued it
        successors = storage.records.array("link")
        for number, (slot, write) in enumerate(zip(slots.tolist(), writes, strict=True)):
            tail = self._tails.setdefault(episodes[number], deque(maxlen=self.history + 1))
            if tail and successors[tail[-1] % storage.capacity] != slot:
                tail.clear()
            tail.append(write)
            for table, found in zip(self._tables, happened, strict=True):
                if found[number]:
                    led = np.array(tail)
                    table.add(led[led >= oldest] % storage.capacity)
            if ends[number]:
                del self._tails[episodes[number]]

    def evict(self, storage: SlotStore, slots: Tensor) -> None:
        overwritten = slots.numpy()
        for table in self._tables:
            table.discard(overwritten)

    # -- draws ------------------------------------------------------------------------------------

    def current_shares(self, size: int) -> np.ndarray:
        """Return the shares ``(1 + events,)`` of all rows and of each table in a batch of `size` rows."""
        lengths = np.array(list(map(len, self._tables)))
        full = lengths >= np.maximum(1.0, self.shares[1:] * size)
        shares = self.shares * np.concatenate([[True], full])
        if not shares.any():
            shares[0] = 1.0
        return shares / shares.sum()

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        shares = self.current_shares(size)
        points = (np.arange(size) + rng.random()) / size
        limits = np.concatenate([[0], np.searchsorted(points, shares.cumsum()[:-1]), [size]])
        counts = np.diff(limits)
        parts = [rng.integers(0, len(stored), counts[0])]
        for table, count in zip(self._tables, counts[1:], strict=True):
            if count:
                parts.append(table.members[rng.integers(0, len(table), count)])
        slots = np.concatenate(parts)
        drawn = np.full(size, shares[0] / len(stored))
        for table, share in zip(self._tables, shares[1:], strict=True):
            drawn += table.contains(slots) * (share / max(1, len(table)))
        return torch.from_numpy(slots), torch.from_numpy(drawn.astype(np.float32))

    def statistics(self) -> dict[str, float]:
        found = {}
        for number, table in enumerate(self._tables):
            found[f"event_table_{number}_rows"] = float(len(table))
        return found

    def nbytes(self, capacity: int, features: int) -> int:
        return len(self.events) * 8 * capacity

    def state_dict(self) -> dict[str, Any]:
        tails = self._tails.values()
        state: dict[str, Any] = {
            "episodes": np.array(list(self._tails), np.int64),
            "lengths": np.array(list(map(len, tails)), np.int64),
            "writes": np.array(list(chain.from_iterable(tails)), np.int64),
        }
        if self._tables:
            state["capacity"] = self._tables[0].capacity
            state["tables"] = [table.members for table in self._tables]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: The state has another number of tables.
        """
        tables = list(state.get("tables", []))
        if tables and len(tables) != len(self.events):
            raise ValueError(f"the state has {len(tables)} event tables; expected {len(self.events)}, one per event")
        writes = np.split(np.asarray(state["writes"]), np.cumsum(np.asarray(state["lengths"]))[:-1])
        episodes = np.asarray(state["episodes"]).tolist()
        self._tails = {}
        for episode, tail in zip(episodes, writes, strict=False):  # without episodes there is one empty part
            self._tails[episode] = deque(tail.tolist(), self.history + 1)
        self._tables = []
        for members in tables:
            self._tables.append(SlotSet(int(state["capacity"]), np.asarray(members)))


class SlotSet:
    """A set of slots with fast insertion, removal and uniform draws."""

    def __init__(self, capacity: int, members: np.ndarray | None = None):
        self.capacity = capacity
        self._members = np.empty(capacity, np.int32)
        self._positions = np.full(capacity, -1, np.int32)  # position of each slot among the members
        self._count = 0
        if members is not None:
            self.add(members)

    def __len__(self) -> int:
        return self._count

    @property
    def members(self) -> np.ndarray:
        """The members ``(m,)`` in arbitrary order."""
        return self._members[: self._count]

    def add(self, slots: np.ndarray) -> None:
        """Add `slots` ``(n,)``, which must be unique; members stay."""
        new = slots[self._positions[slots] < 0]
        self._members[self._count : self._count + len(new)] = new
        self._positions[new] = np.arange(self._count, self._count + len(new))
        self._count += len(new)

    def discard(self, slots: np.ndarray) -> None:
        """Remove the members among `slots` ``(n,)``."""
        for slot in slots[self._positions[slots] >= 0]:
            self._count -= 1
            position = self._positions[slot]
            last = self._members[self._count]
            self._members[position] = last
            self._positions[last] = position
            self._positions[slot] = -1

    def contains(self, slots: np.ndarray) -> np.ndarray:
        """Return which of `slots` ``(n,)`` are members, bool ``(n,)``."""
        return self._positions[slots] >= 0
