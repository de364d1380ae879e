"""Insertion: which slot of a store a new unroll is written to, and which unroll it replaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from interreplay.selection import SlotStore
from interreplay.transitions import as_tensor


class DistanceStore(SlotStore, Protocol):
    """Store of unrolls with distances from the policy."""

    def distances(self, slots: np.ndarray | slice) -> np.ndarray:
        """Return the distances ``(n,)`` of the unrolls in `slots` ``(n,)``."""
        ...


class Insertion(ABC):
    """Chooses slots: 0 … len − 1 are occupied. Empty slots are filled first, in ascending order.

    Attributes:
        in_write_order: Whether the newest unroll is in slot (written − 1) mod capacity, as in a ring.
        uses_distances: Whether it uses `DistanceStore.distances` from the policy.
    """

    in_write_order = False
    uses_distances = False

    @abstractmethod
    def slots(self, store: DistanceStore, count: int, rng: np.random.Generator) -> np.ndarray:
        """Choose a slot for each of `count` new unrolls, oldest first.

        Returns:
            ``(count,)`` int64 without duplicates; −1 for unrolls that are not kept.
        """

    def nbytes(self, capacity: int) -> int:
        """Return the memory of this insertion in bytes."""
        return 0

    def state_view(self) -> dict[str, Any]:
        """Return everything needed to resume; arrays share memory."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - there is none by default
        """Restore a state."""


class Fifo(Insertion):
    """A ring buffer: new unrolls replace the oldest."""

    in_write_order = True

    def slots(self, store: DistanceStore, count: int, rng: np.random.Generator) -> np.ndarray:
        kept = min(count, store.capacity)
        slots = (store.written + np.arange(kept)) % store.capacity
        return np.concatenate([np.full(count - kept, -1, np.int64), slots])


class Reservoir(Insertion):
    """A uniform sample without replacement of all unrolls: each has a random key, and the largest keys are kept.

    Vitter 1985, Random sampling with a reservoir; for replay Rolnick et al. 2019, CLEAR, arXiv:1811.11682.
    """

    def __init__(self) -> None:
        self._keys = np.empty(0)

    def slots(self, store: DistanceStore, count: int, rng: np.random.Generator) -> np.ndarray:
        stored = len(store)
        if not len(self._keys):
            self._keys = np.zeros(store.capacity)
        keys = np.concatenate([self._keys[:stored], rng.random(count)])
        removed = np.zeros(len(keys), bool)
        excess = len(keys) - store.capacity
        if excess > 0:
            removed[np.argpartition(keys, excess)[:excess]] = True
        kept = ~removed[stored:]
        free = np.concatenate([np.flatnonzero(removed[:stored]), np.arange(stored, store.capacity)])
        slots = np.full(count, -1, np.int64)
        slots[kept] = free[: kept.sum()]
        self._keys[slots[kept]] = keys[stored:][kept]
        return slots

    def nbytes(self, capacity: int) -> int:
        return 8 * capacity

    def state_view(self) -> dict[str, Any]:
        return {"keys": self._keys}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._keys = as_tensor(state["keys"]).numpy().copy()


class Elite(Insertion):
    """Replaces the unroll that is furthest from the current policy among some random candidates.

    Candidates are drawn with replacement; ties go to the first one drawn.

    Args:
        candidates: Number of candidates, 1 or more; 1 replaces a random unroll.
    """

    uses_distances = True

    def __init__(self, candidates: int = 20):
        self.candidates = candidates

    def slots(self, store: DistanceStore, count: int, rng: np.random.Generator) -> np.ndarray:
        empty = min(count, store.capacity - len(store))
        slots = np.arange(len(store), len(store) + count)
        if empty < count:
            distances = store.distances(slice(None))
            distances[len(store) : len(store) + empty] = -1.0  # new unrolls are nearer than all stored ones
            candidates = rng.integers(0, store.capacity, (count - empty, self.candidates))
            for number, drawn in enumerate(candidates, start=empty):
                slots[number] = drawn[distances[drawn].argmax()]
                distances[slots[number]] = -1.0
        return without_earlier_duplicates(slots)


def without_earlier_duplicates(slots: np.ndarray) -> np.ndarray:
    """Return `slots` ``(n,)`` with −1 in place of all but the last occurrence of each slot."""
    reversed_slots = slots[::-1]
    first = np.unique(reversed_slots, return_index=True)[1]
    if len(first) == len(slots):
        return slots
    kept = np.full(len(slots), -1, np.int64)
    kept[len(slots) - 1 - first] = reversed_slots[first]
    return kept
