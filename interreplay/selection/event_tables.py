"""Stratified selection from tables of steps that led to events."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.selection.base import Selector, Stored
from interreplay.selection.events import SUCCESS, event
from interreplay.selection.slot_set import SlotSet
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions


class EventTables(Selector):
    """Fixed shares of each batch from all rows, and from a table per event of the steps that led to it.

    Kompella et al. 2023, arXiv:2211.00576. Where an event happens at a step, this step and the `history` ones before it
    in its episode join the event's table; a table holds places, and loses them when their rows are overwritten, where
    the authors' hold rows of their own. Of every table come ⌊share·n⌋ rows or one more, drawn uniformly with
    replacement. A table with fewer rows than its part of the batch waits, its share goes to the others in proportion.
    There are no weights: where the same action may or may not lead to an event, the event is seen more often than it
    happens, as the authors accept for long histories.

    Args:
        events: Each as `interreplay.selection.events.event` takes it, one or more.
        shares: Of the tables, each above 0; what is left of 1 is drawn from all rows. None for equal ones.
        default_share: Drawn from all rows, where `shares` is None.
        history: τ, steps before an event.

    Raises:
        ValueError: When an argument is out of range.
    """

    by_write_order = True

    def __init__(
        self,
        events: Sequence[str | Callable[[Transitions], Tensor]] = ("reward > 0", "terminated"),
        shares: Sequence[float] | None = None,
        default_share: float = 0.5,
        history: int = 50,
    ):
        given = [events] if isinstance(events, str) or callable(events) else list(events)
        self.events = [event(one) for one in given]
        if not given:
            raise ValueError(f"events are {given}; expected at least one event")
        check_number("history", history, 0)
        check_number("default_share", default_share, 0, 1)
        for share in shares or ():
            check_number("shares: a share", share, 0, 1)
        each = [(1.0 - default_share) / len(given)] * len(given) if shares is None else [float(s) for s in shares]
        if len(each) != len(given) or math.fsum(each) > 1 + 1e-9:
            raise ValueError(
                f"shares are {each}; expected one of 0 or more for each of {len(given)} events, at most 1 in all"
            )
        self.shares, self.history = np.array([max(0.0, 1.0 - math.fsum(each)), *each]), int(history)
        wants = frozenset({SUCCESS_COLUMN} if SUCCESS in given else ())
        self.columns_wanted = self.needs = wants
        self._tables: list[SlotSet] = []
        self._tails: dict[int, deque[int]] = {}

    # -- tables -----------------------------------------------------------------------------------

    def observe(self, storage: Stored, slots: Tensor) -> None:
        assert isinstance(storage, Storage), "events happen at stored transitions"
        if not self._tables:
            self._tables = [SlotSet(storage.capacity) for _ in self.events]
        happened = [one(storage, slots).tolist() for one in self.events]
        ends = (storage.column("terminated")[slots] | storage.column("truncated")[slots]).tolist()
        episodes = storage.column("episode")[slots].tolist()
        following = self._following(storage, slots, episodes)
        for number, (slot, write) in enumerate(zip(slots.tolist(), storage.write_numbers(slots).tolist(), strict=True)):
            tail = self._tails.setdefault(episodes[number], deque(maxlen=self.history + 1))
            if tail and following.get(tail[-1]) != slot:
                tail.clear()
            tail.append(write)
            for table, found in zip(self._tables, happened, strict=True):
                if found[number]:
                    led = np.array(tail)
                    table.add(led[led >= storage.written - storage.capacity] % storage.capacity)
            if ends[number]:
                del self._tails[episodes[number]]

    def _following(self, storage: Storage, slots: Tensor, episodes: list[int]) -> dict[int, int]:
        """Return the slots of the rows that continue the new ones and those before them, by their write numbers."""
        oldest = storage.written - storage.capacity
        for episode in [episode for episode, tail in self._tails.items() if tail[-1] < oldest]:
            del self._tails[episode]  # nothing continued it
        before = [self._tails[episode][-1] for episode in set(episodes) if episode in self._tails]
        writes = torch.cat([torch.tensor(before, dtype=torch.int64, device=slots.device), storage.write_numbers(slots)])
        return dict(zip(writes.tolist(), storage.successor(writes % storage.capacity).tolist(), strict=True))

    def evict(self, storage: Stored, slots: Tensor) -> None:
        leaving = slots.numpy(force=True)
        for table in self._tables:
            table.discard(leaving)

    # -- draws ------------------------------------------------------------------------------------

    def current_shares(self, size: int) -> np.ndarray:
        """Return the shares ``(1 + events,)`` of all rows and of each table in a batch of `size` rows."""
        full = np.array(
            [len(table) >= max(1.0, share * size) for table, share in zip(self._tables, self.shares[1:], strict=True)]
        )
        shares = self.shares * np.concatenate([[True], full])
        return shares / shares.sum() if shares.sum() > 0 else np.eye(len(shares))[0]

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        shares = self.current_shares(size)
        points = (np.arange(size) + rng.random()) / size
        limits = np.concatenate([[0], np.searchsorted(points, shares.cumsum()[:-1]), [size]])
        counts = np.diff(limits)
        parts = [rng.integers(0, len(stored), counts[0])]
        for table, count in zip(self._tables, counts[1:], strict=True):
            parts.append(table.members[rng.integers(0, max(1, len(table)), count)] if count else parts[0][:0])
        slots = np.concatenate(parts)
        drawn = np.full(size, shares[0] / len(stored))
        for table, share in zip(self._tables, shares[1:], strict=True):
            drawn += table.contains(slots) * (share / max(1, len(table)))
        return torch.from_numpy(slots).to(stored.device), torch.from_numpy(drawn.astype(np.float32)).to(stored.device)

    def statistics(self) -> dict[str, float]:
        """Return the rows in each table."""
        return {f"event_table_{number}_rows": float(len(table)) for number, table in enumerate(self._tables)}

    def nbytes(self, capacity: int, features: int) -> int:
        return len(self.events) * SlotSet.nbytes(capacity)

    def state_dict(self) -> dict[str, Any]:
        tails = [*self._tails.values()]
        state: dict[str, Any] = {
            "episodes": np.array([*self._tails], np.int64),
            "lengths": np.array([len(tail) for tail in tails], np.int64),
            "writes": np.array([write for tail in tails for write in tail], np.int64),
        }
        if self._tables:
            state |= {"capacity": self._tables[0].capacity, "tables": [table.members for table in self._tables]}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        writes = np.split(np.asarray(state["writes"]), np.cumsum(np.asarray(state["lengths"]))[:-1])
        episodes = np.asarray(state["episodes"]).tolist()
        tails = zip(episodes, writes, strict=True) if episodes else ()
        self._tails = {episode: deque(tail.tolist(), self.history + 1) for episode, tail in tails}
        tables = state.get("tables", [])
        self._tables = [SlotSet(int(state["capacity"]), np.asarray(members)) for members in tables]
