"""What describes batches of unrolls: how old they are, how far from the policy, how often they are replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


class UnrollStatistics:
    """Means, over the batches looked at, of numbers that describe them, and totals of all batches.

    Nothing here draws random numbers or changes what is drawn.

    Args:
        distance: Between what the policy gave and what it gives, the same one for every source; KL by default.
        every: Batches per one whose distances are measured.
    """

    def __init__(self, distance: UnrollDistance | None = None, every: int = 10):
        self.distance, self.every = distance if distance is not None else UnrollDistance(), every
        self.batches = 0
        self._given: dict[str, int] = {}
        self._found: dict[str, list[float]] = {}
        self._most: dict[str, float] = {}

    def observe(self, mix: UnrollMix, batch: Unrolls, version: int, policy: Tensor | None = None) -> None:
        """Look at a batch that was learned from.

        Args:
            mix: Where it came from.
            batch: ``(T, B, ...)``.
            version: Updates that the learner has made.
            policy: What its policy gives for the batch ``(T, B, F)``.
        """
        lag = (version - batch.version).cpu().numpy()
        origins, fresh = batch.origins.cpu().numpy(), batch.fresh.cpu().numpy()
        self._note("fresh_share", fresh.mean())
        for name, rows in (("lag", slice(None)), ("lag_fresh", fresh), ("lag_replayed", ~fresh)):
            if len(lag[rows]):
                self._note(f"{name}_mean", lag[rows].mean())
                self._most[f"{name}_max"] = max(self._most.get(f"{name}_max", 0.0), float(lag[rows].max()))
        far = None
        if policy is not None and self.batches % self.every == 0:
            far = self.distance(batch.policy, policy.detach(), batch.live).cpu().numpy()
        for number, name in enumerate(mix.sources):
            self._of_source(name, origins == number, batch.slots, far)
        self.batches += 1

    def _of_source(self, name: str, rows: np.ndarray, slots: Tensor, far: np.ndarray | None) -> None:
        count = int(rows.sum())
        self._given[name] = self._given.get(name, 0) + count
        if not count:
            return
        if far is not None:
            self._note(f"{name}/distance", far[rows].mean())
        drawn = slots[torch.from_numpy(rows).to(slots.device)]
        if int(drawn[0]) >= 0:
            self._note(f"{name}/unique_share", len(drawn.unique()) / count)

    def _note(self, name: str, value: float) -> None:
        self._found.setdefault(name, []).append(float(value))

    def collect(self, mix: UnrollMix) -> dict[str, float]:
        """Return numbers by name, means and largest ones since the last call; names of sources come before a slash.

        Returns:
            ``lag_mean``, ``lag_max``: updates since the behavior policy of an unroll, also of fresh and of replayed
            ones alone (``lag_fresh_mean``, ``lag_replayed_mean``, …); ``fresh_share`` of the batches.
            Of each source: ``given``, unrolls in batches over the run; ``distance`` from the policy of those in a
            batch; ``unique_share``, different ones among them; and what `UnrollMix.statistics` says.
        """
        found = {name: float(np.mean(values)) for name, values in self._found.items()} | self._most
        self._found, self._most = {}, {}
        given = {f"{name}/given": float(count) for name, count in self._given.items()}
        return found | given | mix.statistics()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        found = {name: list(values) for name, values in self._found.items()}
        return {"batches": self.batches, "given": dict(self._given), "found": found, "most": dict(self._most)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.batches, self._given = int(state["batches"]), dict(state["given"])
        self._found = {name: list(values) for name, values in state["found"].items()}
        self._most = dict(state["most"])
