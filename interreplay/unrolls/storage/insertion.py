"""Insertion: which slot of a store a new unroll takes, and what it replaces there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from interreplay.transitions import as_tensor


class Slots(Protocol):
    """What an insertion sees of a store: slots 0 … len − 1 are taken, the others empty.

    Attributes:
        capacity: Number of slots.
        written: Unrolls ever written.
    """

    @property
    def capacity(self) -> int: ...
    @property
    def written(self) -> int: ...
    def __len__(self) -> int: ...
    def distances(self, slots: np.ndarray | slice) -> np.ndarray: ...


class Insertion(ABC):
    """Chooses slots. Empty ones are filled first, from the first to the last.

    Attributes:
        in_write_order: Whether the newest unroll lies in slot (written − 1) mod capacity, as in a ring.
        uses_distances: Whether it goes by `Slots.distances`, from the policy.
    """

    in_write_order = False
    uses_distances = False

    @abstractmethod
    def slots(self, store: Slots, count: int, rng: np.random.Generator) -> np.ndarray:
        """Choose a slot for each of `count` new unrolls, oldest first.

        Returns:
            ``(count,)`` int64, no slot twice; −1 for one that is not kept.
        """

    def nbytes(self, capacity: int) -> int:
        """Return bytes that it takes."""
        return 0

    def state_view(self) -> dict[str, Any]:
        """Return everything needed to go on; arrays share memory."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; there is none by default."""
        return


class Fifo(Insertion):
    """A ring: the oldest leaves."""

    in_write_order = True

    def slots(self, store: Slots, count: int, rng: np.random.Generator) -> np.ndarray:
        kept = min(count, store.capacity)
        slots = (store.written + np.arange(kept)) % store.capacity
        return np.concatenate([np.full(count - kept, -1, np.int64), slots])


class Reservoir(Insertion):
    """A uniform sample, without replacement, of all that ever came: each gets a random key, the largest stay.

    Vitter 1985, Random sampling with a reservoir; for replay Rolnick et al. 2019, CLEAR, arXiv:1811.11682.
    """

    def __init__(self) -> None:
        self._keys = np.empty(0)

    def slots(self, store: Slots, count: int, rng: np.random.Generator) -> np.ndarray:
        stored = len(store)
        if not len(self._keys):
            self._keys = np.zeros(store.capacity)
        keys = np.concatenate([self._keys[:stored], rng.random(count)])
        leaves = np.zeros(len(keys), bool)
        if len(keys) > store.capacity:
            leaves[np.argpartition(keys, len(keys) - store.capacity)[: len(keys) - store.capacity]] = True
        stay = ~leaves[stored:]
        free = np.concatenate([np.flatnonzero(leaves[:stored]), np.arange(stored, store.capacity)])
        slots = np.full(count, -1, np.int64)
        slots[stay] = free[: stay.sum()]
        self._keys[slots[stay]] = keys[stored:][stay]
        return slots

    def nbytes(self, capacity: int) -> int:
        return 8 * capacity

    def state_view(self) -> dict[str, Any]:
        return {"keys": self._keys}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._keys = as_tensor(state["keys"]).numpy().copy()


class Elite(Insertion):
    """Of some random slots the one leaves whose unroll is furthest from the current policy, as the store has it.

    Candidates are drawn with replacement; of equally far ones the first drawn leaves.

    Args:
        candidates: How many, 1 or more; 1 evicts at random.

    Raises:
        ValueError: When it is less.
    """

    uses_distances = True

    def __init__(self, candidates: int = 20):
        if candidates < 1:
            raise ValueError(f"candidates is {candidates}; expected 1 or more")
        self.candidates = int(candidates)

    def slots(self, store: Slots, count: int, rng: np.random.Generator) -> np.ndarray:
        empty = min(count, store.capacity - len(store))
        slots = np.arange(len(store), len(store) + count)
        if empty < count:
            far = store.distances(slice(None)).copy()
            far[len(store) : len(store) + empty] = -1.0  # those that come with this one are nearer than any other
            for number, drawn in enumerate(rng.integers(0, store.capacity, (count - empty, self.candidates)), empty):
                slots[number] = drawn[far[drawn].argmax()]
                far[slots[number]] = -1.0
        return last_in_each(slots)


def last_in_each(slots: np.ndarray) -> np.ndarray:
    """Return `slots` ``(n,)`` with −1 in the place of all but the last that have the same one."""
    reversed_slots = slots[::-1]
    first = np.unique(reversed_slots, return_index=True)[1]
    if len(first) == len(slots):
        return slots
    kept = np.full(len(slots), -1, np.int64)
    kept[len(slots) - 1 - first] = reversed_slots[first]
    return kept
