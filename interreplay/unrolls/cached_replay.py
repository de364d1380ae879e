"""Replay that assembles the next batch in a background thread."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.transitions import as_tensor
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.unrolls import Unrolls, from_columns


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
        self._prepared()  # the thread reads the slots that are about to be overwritten
        super().add(unrolls, rng)

    def prepare(self, count: int, rng: np.random.Generator) -> None:
        slots, weights = self.choose(count, rng)
        self._next = self._background.submit(self._copied, slots, weights)

    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        """Return the prepared unrolls; if their number is not `count`, drop them and draw new ones."""
        prepared = self._prepared()
        self._next = None
        if prepared is None or prepared.size != count:
            return super().draw(count, rng)
        return prepared

    def _prepared(self) -> Unrolls | None:
        """Wait for the background thread; return the prepared unrolls, or None."""
        if self._next is None:
            return None
        return self._next.result()

    def _copied(self, slots: Tensor, weights: Tensor) -> Unrolls:
        """Return unrolls with columns contiguous in memory, time first."""
        return self.store[slots].replace(weights=weights).map(Tensor.contiguous)

    def state_view(self) -> dict[str, Any]:
        state = super().state_view()
        prepared = self._prepared()
        if prepared is not None:
            state["prepared"] = prepared.columns()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._next = None
        if "prepared" in state:
            columns = {}
            for name, column in state["prepared"].items():
                columns[name] = as_tensor(column).clone()
            self._next = Future()
            self._next.set_result(from_columns(columns))
