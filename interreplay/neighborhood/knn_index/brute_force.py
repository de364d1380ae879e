"""Exact nearest neighbors by brute force: for rows with too few candidates, and as the reference in tests."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.neighborhood.discrete_columns import DiscreteColumns
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import RunningStandardizer

CHUNK = 1 << 16  # rows compared at a time


def nearest(storage: Storage, slots: Tensor, k: int, discrete: DiscreteColumns | None = None) -> Tensor:
    """Return the k nearest rows of the rows in `slots` ``(n,)`` in z / std(z), nearest first, without themselves.

    A matrix product selects candidates; they are ranked by sums of squared differences, which do not cancel. With
    `discrete`, only rows with equal discrete values are neighbors.

    Returns:
        Slots ``(n, k)`` int64; −1 if fewer than k other rows are stored.
    """
    weights, mean = _weights(storage)
    infinity = float("inf")

    def scale_rows(rows: Tensor) -> Tensor:
        return (storage.features(rows) - mean) * weights

    queries = scale_rows(slots)
    best = queries.new_full((len(slots), 1), infinity)
    found = slots.new_full((len(slots), 1), -1)
    for rows in _chunks(storage):
        vectors = scale_rows(rows)
        distances = (vectors * vectors).sum(1) - 2.0 * queries @ vectors.T
        distances.masked_fill_(rows == slots[:, None], infinity)
        if discrete is not None:
            for own, other in zip(discrete.read(storage, slots).T, discrete.read(storage, rows).T, strict=True):
                distances.masked_fill_(own[:, None] != other, infinity)
        best = torch.cat([best, distances], 1)
        found = torch.cat([found, rows.expand(len(slots), -1)], 1)
        best, order = best.topk(min(k + 8, best.shape[1]), dim=1, largest=False)
        found = found.gather(1, order).masked_fill_(best.isinf(), -1)
    candidates = scale_rows(found.clamp(min=0).flatten()).view(*found.shape, -1)
    exact = (candidates - queries[:, None]).square().sum(-1).masked_fill_(found < 0, infinity)
    found = found.gather(1, exact.argsort(dim=1, stable=True))[:, :k]
    return torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-1)


def _weights(storage: Storage) -> tuple[Tensor, Tensor]:
    """Return 1 / std and mean ``(d,)``, float32, over all stored rows; weight 0 for constant dimensions."""
    first = storage.features(torch.zeros(1, dtype=torch.int64))[0].numpy()
    scale = RunningStandardizer(len(first))
    scale.center(first)
    for rows in _chunks(storage):
        scale.add(storage.features(rows).numpy())
    scale.freeze()
    return torch.from_numpy(scale.weights).float(), torch.from_numpy(scale.mean).float()


def _chunks(storage: Storage) -> tuple[Tensor, ...]:
    return torch.arange(len(storage)).split(CHUNK)
