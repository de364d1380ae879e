"""Outcomes predicted ahead of time: a neighborhood that is factorized once serves several batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.synthesis.gaussian_process.synthesizer import GaussianProcess

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

ARRAYS = ("owner", "key", "left", "partner", "share", "outcome", "variance")


class QueuedGaussianProcess(GaussianProcess):
    """A `GaussianProcess` that keeps a ring of ready outcomes for stored rows.

    When a neighborhood has to be predicted, `depth` queries are predicted at once: the one of this batch, and others
    on lines to neighbors drawn uniformly, λ drawn as ever. Later batches with the same anchor use these up, as long as
    the anchor and all its neighbors are the same rows and hyperparameters were not fitted again. Slot i of the buffer
    has ring i mod `rings`; with fewer rings than rows, rows that share one displace each other's outcomes.

    Saves where predictions are dear (a fit per neighborhood); with shared hyperparameters looking them up costs about
    what it saves. Takes at most ``rings·(18 + (depth − 1)·(12 + 8·T))`` bytes, T = 1 + d_s: 111 MB for 100,000 rings of
    8 for HalfCheetah.

    Args:
        depth: Outcomes predicted at once, 2 or more.
        rings: Number of rings, whatever the capacity of the buffer.
        **settings: As `GaussianProcess` takes them.

    Raises:
        ValueError: When `depth` or `rings` is out of range.
    """

    def __init__(self, depth: int = 8, rings: int = 100_000, **settings: Any):
        super().__init__(**settings)
        check_number("queue", depth, 2, whole=True)
        check_number("queue_rings", rings, 1, whole=True)
        self.depth, self.rings = int(depth), int(rings)
        self.owner, self.key = np.full(rings, -1, np.int64), np.zeros(rings, np.int64)
        self.left, self.partner = np.zeros(rings, np.int16), np.zeros((rings, 0), np.int64)
        self.share = np.zeros((rings, 0), np.float32)
        self.outcome = self.variance = np.zeros((rings, 0, 0), np.float32)
        self.fits = self.used = 0

    @staticmethod
    def bytes_of(depth: int, rings: int, targets: int) -> int:
        """Return bytes that all rings take for rows with T targets."""
        return rings * (8 + 8 + 2 + depth * (8 + 4 + 8 * targets))

    def nbytes(self, capacity: int, features: int) -> int:
        return self.bytes_of(self.depth - 1, self.rings, features)  # at least one feature is an action

    def arrange(self, storage: Storage, slots: Tensor, neighbors: Tensor) -> Tensor:
        """Put the partner of a ready outcome first, and remember which rows have one."""
        if self.schedule.shared and (self.schedule.due() or self.fits != self.schedule.fits):
            self.left[:] = 0
        found, written = neighbors.numpy(force=True), storage.write_numbers(slots).numpy(force=True)
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
        targets, miss = y.shape[2], np.flatnonzero(~hit)
        self._allocate(targets)
        outcome, variances = (torch.empty(len(z), targets, dtype=self.preparation.dtype, device=z.device) for _ in "01")
        failed = torch.zeros(len(z), dtype=torch.bool, device=z.device)
        if hit.any():
            at = torch.from_numpy(np.flatnonzero(hit)).to(z.device)
            outcome[at] = torch.from_numpy(self.outcome[ring[hit], place[hit]]).to(outcome)
            variances[at] = torch.from_numpy(self.variance[ring[hit], place[hit]]).to(variances)
            self.used += len(at)
        if not len(miss):
            self.schedule.passed()
            return outcome, variances, failed
        index = torch.from_numpy(miss).to(z.device)
        column, share = self._draw(found[miss], rng)
        ends = z[index[:, None], 1 + torch.from_numpy(column).to(z.device)] - z[index, :1]
        more = ends * torch.from_numpy(1.0 - share).to(z).unsqueeze(2)
        queries = torch.cat([offset[index].unsqueeze(1), more], dim=1)
        made, spread, bad = self.predict(z[index], y[index], actions, queries, rng)
        outcome[index], variances[index], failed[index] = made[:, 0], spread[:, 0], bad
        self.fits = self.schedule.fits
        rings, partner = ring[miss], np.take_along_axis(found[miss], column, axis=1)
        self.owner[rings], self.key[rings] = written[miss], key[miss]
        self.partner[rings], self.share[rings] = partner, share
        self.outcome[rings] = made[:, 1:].numpy(force=True)
        self.variance[rings] = spread[:, 1:].numpy(force=True)
        self.left[rings] = np.where(bad.numpy(force=True) | (partner < 0).any(1), 0, self.depth - 1)
        return outcome, variances, failed

    def _draw(self, found: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return columns of neighbors and λ ``(n, depth − 1)`` for outcomes to come."""
        shape = (len(found), self.depth - 1)
        there = np.maximum((found >= 0).sum(1), 1)[:, None]  # missing neighbors come last
        column = (rng.random(shape) * there).astype(np.int64)
        return column, self.coefficient(shape[0] * shape[1], rng).reshape(shape)

    def _allocate(self, targets: int) -> None:
        """Make room, once the number of targets is known."""
        ready = self.depth - 1
        if self.outcome.shape[1:] != (ready, targets):
            self.partner, self.share = (
                np.zeros((self.rings, ready), np.int64),
                np.zeros((self.rings, ready), np.float32),
            )
            self.outcome, self.variance = (np.zeros((self.rings, ready, targets), np.float32) for _ in "01")

    def statistics(self) -> dict[str, float]:
        rows = self.counts["rows"] + self.used
        return {**super().statistics(), "gp_ready_share": self.used / max(1, rows)}

    def state_dict(self) -> dict[str, Any]:
        queue = {name: getattr(self, name) for name in ARRAYS} | {"fits": self.fits, "used": self.used}
        return {**super().state_dict(), "queue": queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        queue = state["queue"]
        if len(queue["owner"]) != self.rings:
            raise ValueError(f"the state has {len(queue['owner'])} rings; this queue has {self.rings}")
        for name in ARRAYS:
            setattr(self, name, np.array(queue[name]))
        self.fits, self.used = int(queue["fits"]), int(queue["used"])


def fingerprint(members: np.ndarray) -> np.ndarray:
    """Return numbers ``(n,)`` int64 of sets of write numbers ``(n, k)``, whatever their order (splitmix64, summed)."""
    mixed = members.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).sum(axis=1, dtype=np.uint64).view(np.int64)
