"""Neighborhoods without an index: none, random rows, and the next step of the episode."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import NO_NEIGHBOR, Neighborhood
from interreplay.neighborhood.discrete_columns import DiscreteColumns
from interreplay.storage.ring import Storage

ROUNDS = 16
"""Rejection rounds before rows with the anchor's discrete values are searched in a block."""
BLOCK = 4096
"""Number of random rows in a block. All rows are listed only for anchors without an equal row in the block."""


class NoNeighbors(Neighborhood):
    """No row has a neighbor; for methods that do not blend."""

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        return torch.full((len(slots), 1), NO_NEIGHBOR, dtype=torch.int64)


class RandomNeighbor(Neighborhood):
    """One other stored row per anchor, drawn uniformly; never the anchor itself.

    If rows have discrete columns, the neighbor has the same discrete values as the anchor. A row without
    another such row has no neighbor.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        discrete = DiscreteColumns(storage, count=False)
        if not discrete.names:
            return self._draw(storage, slots, rng)
        found = torch.full_like(slots, NO_NEIGHBOR).unsqueeze(1)
        if len(storage) == 1:
            return found
        remaining = torch.arange(len(slots))
        for _ in range(ROUNDS):
            drawn = self._draw(storage, slots[remaining], rng)
            same = discrete.find_same(storage, slots[remaining], drawn).squeeze(1)
            found[remaining[same]] = drawn[same]
            remaining = remaining[~same]
            if not len(remaining):
                return found
        blocks = [np.arange(len(storage))]
        if len(storage) > BLOCK:
            blocks.insert(0, rng.integers(0, len(storage), BLOCK))
        for block in blocks:
            found[remaining, 0] = _draw_equal(storage, discrete, slots[remaining], candidates=block, rng=rng)
            remaining = remaining[found[remaining, 0] == NO_NEIGHBOR]
            if not len(remaining):
                break
        return found

    def _draw(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        others = len(storage) - 1
        if others == 0:
            return torch.full_like(slots, NO_NEIGHBOR).unsqueeze(1)
        drawn = torch.from_numpy(rng.integers(0, others, len(slots)))
        drawn += drawn >= slots  # skip the anchor
        return drawn.unsqueeze(1)


class Successor(Neighborhood):
    """The next step of the anchor's episode.

    It is found through the links between rows, so that interleaved environments and the seam of the ring do not
    matter. The last step of an episode has no successor, and neither has the newest step of a running episode.
    """

    follows_episodes = True

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        return storage.successor(slots).unsqueeze(1)


def _draw_equal(
    storage: Storage, discrete: DiscreteColumns, slots: Tensor, candidates: np.ndarray, rng: np.random.Generator
) -> Tensor:
    """Draw one candidate with the discrete values of each of `slots` ``(n,)``, uniformly; never the row itself.

    Candidates may repeat. Return slots ``(n,)``, `NO_NEIGHBOR` for rows without a candidate.
    """
    anchor_keys = discrete.keys(storage, slots)
    keys = discrete.keys(storage, torch.from_numpy(candidates))
    equal = np.flatnonzero(np.isin(keys, anchor_keys))
    order = equal[np.argsort(keys[equal], kind="stable")]
    ordered_keys = keys[order]
    ordered = candidates[order]
    first = np.searchsorted(ordered_keys, anchor_keys, side="left")
    last = np.searchsorted(ordered_keys, anchor_keys, side="right")
    drawn = np.full(len(slots), NO_NEIGHBOR, np.int64)
    for row, slot in enumerate(slots.tolist()):
        members = ordered[first[row] : last[row]]
        members = members[members != slot]
        if len(members):
            drawn[row] = members[rng.integers(len(members))]
    return torch.from_numpy(drawn)
