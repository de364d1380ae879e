"""Replay of unrolls: a store, what is drawn of it, and what is known of how far it is from the policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.selection import Selector, Uniform
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls

TOGETHER = 4
"""Batches whose unrolls to be measured again are asked for at once: one forward pass of many takes less time."""


class UnrollReplay:
    """An `UnrollSource` that replays what a selector picks.

    Distances from the current policy cost no forward passes of their own: the update's own pass brings those of every
    unroll that was drawn, `update` keeps them, and a few random unrolls per batch are measured again (`to_refresh`,
    which is asked after each batch and gives those of four batches after every fourth).

    Args:
        store: Holds the unrolls.
        selector: Draws them; `Uniform()` by default.
        distance: Measures how far unrolls are from the policy; None where nothing goes by it.
        refresh: Unrolls per batch that are measured again, on average.
        fill_in: Share of the capacity that has to be stored before anything is drawn.
        name: For results.

    Raises:
        ValueError: When an argument is out of range, or the parts do not fit each other.
    """

    fresh = full = False

    def __init__(
        self,
        store: UnrollStore,
        selector: Selector | None = None,
        distance: UnrollDistance | None = None,
        refresh: int = 0,
        fill_in: float = 0.0,
        name: str = "replay",
    ):
        if refresh < 0:
            raise ValueError(f"refresh is {refresh}; expected 0 or more")
        if not 0 <= fill_in <= 1:
            raise ValueError(f"fill_in is {fill_in}; expected 0 to 1")
        selector = selector if selector is not None else Uniform()
        if selector.by_write_order and not store.insertion.in_write_order:
            kinds = type(selector).__name__, type(store.insertion).__name__
            raise ValueError(f"{kinds[0]} finds unrolls by write order; expected insertion by Fifo, not {kinds[1]}")
        if distance is None and (refresh or store.insertion.uses_distances):
            raise ValueError("distances are to be measured and distance is None; expected an UnrollDistance")
        self.store, self.selector, self.distance = store, selector, distance
        self.refresh, self.fill_in, self.name = int(refresh), float(fill_in), name
        self.drawn = 0

    def __len__(self) -> int:
        return len(self.store)

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        slots = self.store.place(unrolls, rng)
        kept = slots[slots >= 0]
        self.selector.evict(self.store, kept[kept < len(self.store)])
        self.store.write(unrolls, slots)
        self.selector.observe(self.store, kept)

    def can_give(self, count: int) -> bool:
        """Return whether the store is filled in and has as many unrolls as asked for, or as it can hold."""
        least = max(1, count, math.ceil(self.fill_in * self.store.capacity))
        return len(self.store) >= min(least, self.store.capacity)

    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        drawn = self.selector.draw(self.store, count, rng)
        weights = drawn.weights
        if weights is None:
            weights = self.selector.weights(self.store, drawn.probabilities)
        self.store.clock += 1
        self.drawn += count
        np.add.at(self.store.notes.replays, drawn.slots.numpy(), 1)
        return self.store[drawn.slots].replace(weights=weights.float())

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        if not self.refresh or not self.store.clock or self.store.clock % TOGETHER:
            return None
        return self.store[torch.from_numpy(rng.integers(0, len(self), TOGETHER * self.refresh))]

    def update(
        self,
        unrolls: Unrolls,
        mine: slice | Tensor,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
        distances: Tensor | None = None,
    ) -> None:
        """Take note of unrolls of this store, those that were replaced since they were drawn left out.

        Args:
            unrolls: As they were drawn ``(T, B, ...)``.
            mine: Which of them are of this store.
            policy: What the policy of now gives for all of them ``(T, B, F)``.
            errors: Priorities ``(B,)``.
            distances: From the policy ``(B,)``, in place of what `policy` tells.
        """
        if self.distance is None and errors is None and distances is None:
            return
        slots = unrolls.slots[mine].cpu()
        there = self.store.write_numbers(slots) == unrolls.writes[mine].cpu()
        slots = slots[there]
        if errors is not None:
            self.selector.update(slots, errors[mine].detach().cpu()[there])
        if distances is not None:
            far = distances[mine].detach().float()
        elif policy is not None and self.distance is not None:
            far = self.distance(unrolls.policy[:, mine], policy[:, mine].detach(), unrolls.live[:, mine])
        else:
            return
        self.store.notes.measured(slots.numpy(), far.cpu()[there].numpy(), self.store.clock)

    def anneal(self, progress: float) -> None:
        self.selector.anneal(progress)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.selector.nbytes(self.store.capacity, 0)

    def estimate(self, unrolls: Unrolls) -> int:
        return self.store.estimate(unrolls) + self.selector.nbytes(self.store.capacity, 0)

    def statistics(self) -> dict[str, float]:
        """Return unrolls stored, draws per unroll that came, and where distances are measured their mean and age."""
        stored, notes = len(self), self.store.notes
        found = {"stored": float(stored), "replays_per_unroll": self.drawn / max(1, self.store.offered)}
        if self.distance is not None and stored:
            found["stored_distance"] = float(self.store.distances(slice(stored)).mean())
            found["distance_age"] = float(self.store.clock - notes.seen_at[:stored].mean())
        return found | self.selector.statistics()

    def state_view(self) -> dict[str, Any]:
        return {"store": self.store.state_view(), "selector": self.selector.state_dict(), "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.store.load_state_dict(state["store"])
        self.selector.load_state_dict(state["selector"])
        self.drawn = int(state["drawn"])

    def __repr__(self) -> str:
        """Return the parts."""
        store = f"{self.store.capacity} by {type(self.store.insertion).__name__}"
        return f"UnrollReplay({store}, {type(self.selector).__name__})"
