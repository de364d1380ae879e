"""The standard deviation of the rows stored now, kept up to date as rows come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.transitions import Transitions, as_tensor, observation_parts

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

BLOCK = 64
"""Slots per block. Each added row has its block read again."""
CHUNK = 256
"""Blocks read at a time."""
RESUM = 1024
"""Additions after which all blocks are summed anew, so that rounding cannot build up."""


def parts(rows: Transitions) -> dict[str, Tensor]:
    """s, a, r and s' of n rows, each ``(n, numbers)``, by the names of `Transitions.columns`."""
    named = {f"obs.{name}": part for name, part in observation_parts(rows.obs).items()}
    named |= {"actions": rows.actions, "rewards": rows.rewards}
    named |= {f"next_obs.{name}": part for name, part in observation_parts(rows.next_obs).items()}
    return {name: part.reshape(len(rows), -1) for name, part in named.items()}


class Moments:
    """Sums and sums of squares over the rows stored now of every number in s, a, r and s', float64.

    A row that is overwritten is gone before anybody can subtract it. So the sums are kept per block of 64 slots, and
    the blocks that were written to are summed anew from the rows in them. Values are taken relative to the first row
    ever seen, which keeps squares of large values with a small spread from cancelling.
    """

    def __init__(self) -> None:
        self.count = 0
        self.blocks = torch.empty(0)  # (blocks, 2, D)
        self.total = torch.empty(0)  # (2, D)
        self.origin = torch.empty(0)  # (D,)
        self.additions = 0

    def observe(self, storage: Storage, slots: Tensor) -> None:
        """Take note of rows that were just stored in `slots` ``(n,)``."""
        if not len(self.origin):
            self._prepare(storage, slots[:1])
        if self.blocks.device != storage.device:  # a state was loaded
            self.blocks, self.total = self.blocks.to(storage.device), self.total.to(storage.device)
            self.origin = self.origin.to(storage.device)
        self.count = len(storage)
        touched = np.unique(slots.numpy(force=True) // BLOCK)
        for start in range(0, len(touched), CHUNK):
            numbers = touched[start : start + CHUNK]
            blocks, sums = torch.from_numpy(numbers).to(storage.device), self._sums(storage, numbers)
            self.total += (sums - self.blocks.index_select(0, blocks)).sum(0)
            self.blocks.index_copy_(0, blocks, sums)
        self.additions += 1
        if self.additions % RESUM == 0:
            self.total = self.blocks.sum(0)

    def _prepare(self, storage: Storage, slots: Tensor) -> None:
        self.origin = torch.cat(list(parts(storage.read_records(slots, storage.gamma)).values()), dim=1)[0].double()
        count = -(-storage.capacity // BLOCK)
        self.blocks = torch.zeros(count, 2, len(self.origin), dtype=torch.float64, device=storage.device)
        self.total = torch.zeros_like(self.blocks[0])

    def _sums(self, storage: Storage, blocks: np.ndarray) -> Tensor:
        """Sums over the rows stored in `blocks` ``(b,)``, shape ``(b, 2, D)``."""
        slots = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        stored = slots < len(storage)
        where = torch.from_numpy(np.where(stored, slots, 0)).to(storage.device)
        values = (
            torch.cat(list(parts(storage.read_records(where, storage.gamma)).values()), dim=1)
            .double()
            .sub_(self.origin)
        )
        if not stored.all():
            values *= torch.from_numpy(stored).to(values).unsqueeze(1)
        values = values.view(len(blocks), BLOCK, -1)
        return torch.stack([values.sum(1), values.square().sum(1)], dim=1)

    def std(self) -> Tensor:
        """Standard deviations ``(D,)``, float64, dividing by N, in the order of `parts`."""
        mean, squares = self.total / max(self.count, 1)
        return (squares - mean * mean).clamp(min=0.0).sqrt()

    @staticmethod
    def nbytes(capacity: int, features: int) -> int:
        """Bytes at most, for rows with `features` numbers in z = [s; a]."""
        return -(-capacity // BLOCK) * 2 * 8 * (2 * features + 1)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on; arrays share memory."""
        arrays = {"blocks": self.blocks, "total": self.total, "origin": self.origin}
        return arrays | {"count": self.count, "additions": self.additions}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.count, self.additions = int(state["count"]), int(state["additions"])
        for name in ("blocks", "total", "origin"):
            setattr(self, name, as_tensor(state[name]).clone())
