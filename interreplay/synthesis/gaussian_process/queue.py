"""Outcomes predicted in advance: a neighborhood that is factorized once serves several batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.neighborhood.discrete_columns import GOLDEN, mix_bits
from interreplay.synthesis.gaussian_process.synthesizer import GaussianProcess

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

ARRAYS = ("owner", "key", "left", "partner", "share", "outcome", "variance")


class QueuedGaussianProcess(GaussianProcess):
    """A `GaussianProcess` that keeps predicted outcomes of stored rows.

    For each neighborhood to predict, `depth` outcomes are predicted at once: one for this batch, and others with
    uniformly drawn neighbors and λ as usual. Later batches with the same anchor use them, as long as the anchor and all
    its neighbors are the same rows and hyperparameters were not fitted again. Slot i of the buffer uses ring i mod
    `rings`; rows that share a ring replace each other's outcomes.

    This saves time if predictions are expensive (a fit per neighborhood). With shared hyperparameters, the lookup costs
    about as much as it saves. The memory is at most ``rings·(18 + (depth − 1)·(12 + 8·T))`` bytes with T = 1 + d_s: 111
    MB for 100,000 rings of 8 for HalfCheetah.

    Args:
        depth: Number of outcomes predicted at once, at least 2.
        rings: Number of rings.
        **settings: Arguments of `GaussianProcess`.

    Raises:
        ValueError: If `depth` or `rings` is out of range.
    """

    def __init__(self, depth: int = 8, rings: int = 100_000, **settings: Any):
        super().__init__(**settings)
        check_number("queue", depth, 2, whole=True)
        check_number("queue_rings", rings, 1, whole=True)
        self.depth = int(depth)
        self.rings = int(rings)
        self.owner = np.full(rings, -1, np.int64)  # write number of the anchor
        self.key = np.zeros(rings, np.int64)  # fingerprint of its neighbors
        self.left = np.zeros(rings, np.int16)  # number of outcomes left
        self.fits = 0
        self.used = 0
        self._allocate(0, 0)

    def _allocate(self, ready: int, targets: int) -> None:
        self.partner = np.zeros((self.rings, ready), np.int64)
        self.share = np.zeros((self.rings, ready), np.float32)
        self.outcome = np.zeros((self.rings, ready, targets), np.float32)
        self.variance = np.zeros((self.rings, ready, targets), np.float32)

    def nbytes(self, capacity: int, features: int) -> int:
        """Return the bytes of all rings, for as many targets as features (at least one feature is an action)."""
        return self.rings * (8 + 8 + 2 + (self.depth - 1) * (8 + 4 + 8 * features))

    def arrange(self, storage: Storage, slots: Tensor, neighbors: Tensor) -> Tensor:
        """Put the partner of a predicted outcome first, and record which rows have one."""
        if self.schedule.shared and (self.schedule.due() or self.fits != self.schedule.fits):
            self.left[:] = 0
        found = neighbors.numpy(force=True)
        written = storage.write_numbers(slots).numpy(force=True)
        members = storage.write_numbers(neighbors.clamp(min=0)).numpy(force=True)
        key = fingerprint(np.where(found >= 0, members, -1))
        ring = slots.numpy(force=True) % self.rings
        first = np.zeros(len(ring), bool)
        first[np.unique(ring, return_index=True)[1]] = True
        hit = first & (self.left[ring] > 0) & (self.owner[ring] == written) & (self.key[ring] == key)
        place = np.maximum(self.left[ring] - 1, 0)
        if hit.any():
            found = found.copy()
            rows = np.flatnonzero(hit)
            column = (found[rows] == self.partner[ring[rows], place[rows]][:, None]).argmax(1)
            found[rows, column], found[rows, 0] = found[rows, 0], found[rows, column]
            self.left[ring[rows]] -= 1
        self._batch = (ring, place, hit, written, key, found)
        return torch.from_numpy(found).to(neighbors.device)

    def shares(self, size: int, rng: np.random.Generator) -> np.ndarray:
        ring, place, hit, *_ = self._batch
        drawn = self.coefficient(size, rng)
        if hit.any():
            drawn[hit] = self.share[ring[hit], place[hit]]
        return drawn

    def outcomes(
        self, z: Tensor, y: Tensor, actions: int, offset: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        ring, place, hit, written, key, found = self._batch
        targets = y.shape[2]
        if self.outcome.shape[1:] != (self.depth - 1, targets):
            self._allocate(self.depth - 1, targets)
        outcome = torch.empty(len(z), targets, dtype=self.preparation.dtype, device=z.device)
        variances = torch.empty_like(outcome)
        failed = torch.zeros(len(z), dtype=torch.bool, device=z.device)
        known = torch.from_numpy(np.flatnonzero(hit)).to(z.device)
        outcome[known] = torch.from_numpy(self.outcome[ring[hit], place[hit]]).to(outcome)
        variances[known] = torch.from_numpy(self.variance[ring[hit], place[hit]]).to(variances)
        self.used += len(known)
        miss = np.flatnonzero(~hit)
        if not len(miss):
            self.schedule.skip()
            return outcome, variances, failed
        shape = (len(miss), self.depth - 1)
        available = np.maximum((found[miss] >= 0).sum(1), 1)[:, None]  # missing neighbors are last
        column = (rng.random(shape) * available).astype(np.int64)
        share = self.coefficient(shape[0] * shape[1], rng).reshape(shape)
        index = torch.from_numpy(miss).to(z.device)
        ends = z[index[:, None], 1 + torch.from_numpy(column).to(z.device)] - z[index, :1]
        later = ends * torch.from_numpy(1.0 - share).to(z).unsqueeze(2)
        queries = torch.cat([offset[index].unsqueeze(1), later], dim=1)
        predicted, spread, bad = self.predict(z[index], y[index], actions, queries, rng)
        outcome[index] = predicted[:, 0]
        variances[index] = spread[:, 0]
        failed[index] = bad
        self.fits = self.schedule.fits
        rings = ring[miss]
        partner = np.take_along_axis(found[miss], column, axis=1)
        self.owner[rings] = written[miss]
        self.key[rings] = key[miss]
        self.partner[rings] = partner
        self.share[rings] = share
        self.outcome[rings] = predicted[:, 1:].numpy(force=True)
        self.variance[rings] = spread[:, 1:].numpy(force=True)
        self.left[rings] = np.where(bad.numpy(force=True) | (partner < 0).any(1), 0, self.depth - 1)
        return outcome, variances, failed

    def statistics(self) -> dict[str, float]:
        rows = self.counts["rows"] + self.used
        return {**super().statistics(), "gp_ready_share": self.used / max(1, rows)}

    def state_dict(self) -> dict[str, Any]:
        queue = {name: getattr(self, name) for name in (*ARRAYS, "fits", "used")}
        return {**super().state_dict(), "queue": queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        queue = state["queue"]
        if len(queue["owner"]) != self.rings:
            raise ValueError(f"the state has {len(queue['owner'])} rings; expected {self.rings}")
        for name in ARRAYS:
            setattr(self, name, np.array(queue[name]))
        self.fits = int(queue["fits"])
        self.used = int(queue["used"])


def fingerprint(members: np.ndarray) -> np.ndarray:
    """Return hashes ``(n,)`` int64 of sets of write numbers ``(n, k)``, independent of their order."""
    return mix_bits(members.astype(np.uint64) + GOLDEN).sum(axis=1, dtype=np.uint64).view(np.int64)
