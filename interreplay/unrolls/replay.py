"""Replay of unrolls: a store, a selector, and stored distances from the policy."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.selection import Selector, Uniform
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mixture import UnrollSource
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls, restore

REFRESHED_BATCHES = 4
"""Number of batches to refresh at once: one large forward pass takes less time."""


class UnrollReplay(UnrollSource):
    """An `UnrollSource` that replays the unrolls that a selector draws.

    Distances from the current policy need no additional forward passes: the pass of each update gives the distances of
    the unrolls in the batch, and `update` stores them. A few random unrolls per batch are measured again:
    `to_refresh`, called after each batch, returns the unrolls of four batches after every fourth batch.

    Args:
        store: Contains the unrolls.
        selector: Draws unrolls; `Uniform()` by default.
        distance: Measures the distance of unrolls from the policy; None if it is not used.
        refresh: Average number of unrolls per batch that are measured again.
        fill_in: Share of the capacity that must be stored before unrolls are drawn.
        name: Name in results.

    Raises:
        ValueError: If the selector requires a ring and the insertion is another one.
    """

    fresh = False

    def __init__(
        self,
        store: UnrollStore,
        selector: Selector | None = None,
        distance: UnrollDistance | None = None,
        refresh: int = 0,
        fill_in: float = 0.0,
        name: str = "replay",
    ):
        selector = selector or Uniform()
        if selector.by_write_order and not store.insertion.in_write_order:
            raise ValueError(
                f"{type(selector).__name__} finds unrolls by write order; expected insertion by Fifo, not "
                f"{type(store.insertion).__name__}"
            )
        self.store = store
        self.selector = selector
        self.distance = distance
        self.refresh = refresh
        self.fill_in = fill_in
        self.name = name
        self.drawn = 0
        self._refresh_due = False

    def __len__(self) -> int:
        return len(self.store)

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        slots = self.store.place(unrolls, rng)
        kept = slots[slots >= 0]
        self.selector.evict(self.store, kept[kept < len(self.store)])
        self.store.write(unrolls, slots)
        self.selector.observe(self.store, kept)

    def can_provide(self, count: int) -> bool:
        """Return whether the store contains `fill_in` and `count` unrolls, or is full."""
        least = max(1, count, math.ceil(self.fill_in * self.store.capacity))
        return len(self.store) >= min(least, self.store.capacity)

    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        slots, weights = self.choose(count, rng)
        return self.store[slots].replace(weights=weights)

    def choose(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw and count the slots ``(n,)`` of a batch, without copying the unrolls; also return weights ``(n,)``."""
        draw = self.selector.draw(self.store, count, rng)
        weights = draw.weights
        if weights is None:
            weights = self.selector.weights(self.store, draw.probabilities)
        self.store.clock += 1
        if self.store.clock % REFRESHED_BATCHES == 0:
            self._refresh_due = True
        self.drawn += count
        np.add.at(self.store.notes["replays"], draw.slots.numpy(), 1)
        return draw.slots, weights.float()

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        if not self.refresh or not self._refresh_due:
            return None
        self._refresh_due = False
        return self.store[torch.from_numpy(rng.integers(0, len(self), REFRESHED_BATCHES * self.refresh))]

    def update(
        self,
        unrolls: Unrolls,
        mine: slice | np.ndarray,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
    ) -> None:
        """Update priorities and distances of the unrolls that have not been replaced since they were drawn.

        Args:
            unrolls: As drawn ``(T, B, ...)``.
            mine: Which unrolls belong to this store.
            policy: Outputs of the current policy for all of them ``(T, B, F)``.
            errors: Priorities ``(B,)``.
        """
        if self.distance is None and errors is None:
            return
        slots = unrolls.slots[mine].cpu()
        kept = self.store.write_numbers(slots) == unrolls.writes[mine].cpu()
        slots = slots[kept]
        if errors is not None:
            self.selector.update(slots, errors[mine].detach().cpu()[kept])
        if policy is not None and self.distance is not None:
            distances = self.distance(unrolls.policy[:, mine], policy[:, mine].detach(), unrolls.live[:, mine])
            self.store.record_distances(slots.numpy(), distances.cpu()[kept].numpy())

    def anneal(self, progress: float) -> None:
        self.selector.anneal(progress)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.selector.nbytes(self.store.capacity, 0)

    def estimate(self, unrolls: Unrolls) -> int:
        return self.store.estimate(unrolls) + self.selector.nbytes(self.store.capacity, 0)

    def statistics(self) -> dict[str, float]:
        """Return the number of stored unrolls, draws per added unroll, and the mean and age of distances if used."""
        stored = len(self)
        found = {"stored": float(stored), "replays_per_unroll": self.drawn / max(1, self.store.offered)}
        if self.distance is not None and stored:
            found["stored_distance"] = float(self.store.distances(slice(stored)).mean())
            found["distance_age"] = float(self.store.clock - self.store.notes["seen_at"][:stored].mean())
        return found | self.selector.statistics()

    def state_view(self) -> dict[str, Any]:
        return {
            "store": self.store.state_view(),
            "selector": self.selector.state_dict(),
            "drawn": self.drawn,
            "refresh_due": self._refresh_due,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.store.load_state_dict(state["store"])
        self.selector.load_state_dict(state["selector"])
        self.drawn = int(state["drawn"])
        self._refresh_due = bool(state.get("refresh_due"))  # missing in checkpoints of 0.3.0

    def __repr__(self) -> str:
        store = f"{self.store.capacity} by {type(self.store.insertion).__name__}"
        return f"UnrollReplay({store}, {type(self.selector).__name__})"


class CachedReplay(UnrollReplay):
    """An `UnrollReplay` that copies the unrolls of the next batch while the learner updates from the current one.

    `prepare` chooses the unrolls in the calling thread, so that runs with one seed are identical; the background thread
    only copies them. Each batch is therefore drawn one update earlier, before the newest unrolls are added. Prepared
    unrolls remain in the batch if they are replaced in the store, and checkpoints contain them.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._background = ThreadPoolExecutor(1, "interreplay-cache")
        self._next: Future[Unrolls] | None = None

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        self._wait_prepared()  # the thread reads the slots that are about to be overwritten
        super().add(unrolls, rng)

    def prepare(self, count: int, rng: np.random.Generator) -> None:
        slots, weights = self.choose(count, rng)
        self._next = self._background.submit(self._copy, slots, weights)

    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        """Return the prepared unrolls; if their number is not `count`, drop them and draw new ones."""
        prepared = self._wait_prepared()
        self._next = None
        if prepared is None or prepared.size != count:
            return super().draw(count, rng)
        return prepared

    def _wait_prepared(self) -> Unrolls | None:
        if self._next is None:
            return None
        return self._next.result()

    def _copy(self, slots: Tensor, weights: Tensor) -> Unrolls:
        """Return unrolls with columns contiguous in memory, time first."""
        return self.store[slots].replace(weights=weights).map(Tensor.contiguous)

    def state_view(self) -> dict[str, Any]:
        state = super().state_view()
        prepared = self._wait_prepared()
        if prepared is not None:
            state["prepared"] = prepared.columns()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._next = None
        if "prepared" in state:
            self._next = Future()
            self._next.set_result(restore(state["prepared"]))
