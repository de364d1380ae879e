"""Statistics of batches of unrolls: age, distance from the policy, and number of replays."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


class UnrollStatistics:
    """Means of statistics over some batches, and totals of all batches.

    The statistics do not draw random numbers and do not change the batches. The distance (KL by default) between
    behavior and current policy is measured for one batch in `every`, the same for all sources.
    """

    def __init__(self, distance: UnrollDistance | None = None, every: int = 10):
        self.distance = distance or UnrollDistance()
        self.every = every
        self.batches = 0
        self._given: dict[str, int] = {}
        self._found: dict[str, list[float]] = {}
        self._most: dict[str, float] = {}

    def observe(self, mix: UnrollMix, batch: Unrolls, version: int, policy: Tensor | None = None) -> None:
        """Process a batch ``(T, B, ...)`` after update number `version`, with the policy's outputs ``(T, B, F)``."""
        lag = (version - batch.version).cpu().numpy()
        fresh = batch.fresh.cpu().numpy()
        self._append("fresh_share", fresh.mean())
        for name, rows in (("lag", slice(None)), ("lag_fresh", fresh), ("lag_replayed", ~fresh)):
            if len(lag[rows]):
                self._append(f"{name}_mean", lag[rows].mean())
                self._most[f"{name}_max"] = max(self._most.get(f"{name}_max", 0.0), float(lag[rows].max()))
        distances = None
        if policy is not None and self.batches % self.every == 0:
            distances = self.distance(batch.policy, policy.detach(), batch.live).cpu().numpy()
        origins = batch.origins.cpu().numpy()
        for number, name in enumerate(mix.sources):
            rows = origins == number
            count = int(rows.sum())
            self._given[name] = self._given.get(name, 0) + count
            if not count:
                continue
            if distances is not None:
                self._append(f"{name}/distance", distances[rows].mean())
            slots = batch.slots[torch.from_numpy(rows).to(batch.slots.device)]
            if int(slots[0]) >= 0:
                self._append(f"{name}/unique_share", len(slots.unique()) / count)
        self.batches += 1

    def _append(self, name: str, value: float) -> None:
        self._found.setdefault(name, []).append(float(value))

    def collect(self, mix: UnrollMix) -> dict[str, float]:
        """Return means and maxima since the last call; names for a source are ``source/name``.

        Returns:
            ``lag_mean``, ``lag_max``: updates since the behavior policy of an unroll, for all, fresh and replayed
            unrolls (``lag_fresh_mean``, ``lag_replayed_mean``, …); ``fresh_share`` of the batches.
            For each source: ``given``, the number of its unrolls in all batches of the run; ``distance``, their mean
            distance from the current policy; ``unique_share``, the share of distinct unrolls among those of a batch.
            The result of `UnrollMix.statistics`.
        """
        found = {name: float(np.mean(values)) for name, values in self._found.items()} | self._most
        self._found = {}
        self._most = {}
        given = {f"{name}/given": float(count) for name, count in self._given.items()}
        return found | given | mix.statistics()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        state = {"batches": self.batches, "given": self._given, "found": self._found, "most": self._most}
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self.batches = int(state["batches"])
        state = copy.deepcopy(state)
        self._given = state["given"]
        self._found = state["found"]
        self._most = state["most"]
