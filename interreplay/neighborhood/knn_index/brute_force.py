"""Exact nearest neighbors by brute force, on any device: the oracle, and the search on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

CHUNK = 1 << 16  # rows that are compared at a time


def nearest(storage: Storage, slots: Tensor, k: int, choices: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return the k nearest rows of those in `slots` ``(n,)`` in z / std(z), nearest first, themselves excluded.

    Computes n·N distances as sums of squared differences without cancellation at the end: a product picks
    the candidates, differences rank them.

    Args:
        storage: What to search.
        slots: Of whom.
        k: How many.
        choices: Slots ``(n,)`` to choices ``(n, c)``; only rows with equal ones are neighbors.

    Returns:
        Slots ``(n, k)`` int64, −1 where fewer than k other rows are stored.
    """
    weights, mean = _weights(storage)
    queries = (storage.features(slots) - mean) * weights
    slack = k + 8
    best = queries.new_full((len(slots), 1), float("inf"))
    found = slots.new_full((len(slots), 1), -1)
    for rows in _chunks(storage):
        vectors = (storage.features(rows) - mean) * weights
        distances = (vectors * vectors).sum(1) - 2.0 * queries @ vectors.T
        distances.masked_fill_(rows == slots[:, None], float("inf"))
        if choices is not None:
            for mine, theirs in zip(choices(slots).T, choices(rows).T, strict=True):
                distances.masked_fill_(mine[:, None] != theirs, float("inf"))
        best = torch.cat([best, distances], 1)
        found = torch.cat([found, rows.expand(len(slots), -1)], 1)
        best, order = best.topk(min(slack, best.shape[1]), dim=1, largest=False)
        found = found.gather(1, order).masked_fill_(best.isinf(), -1)
    candidates = (storage.features(found.clamp(min=0).flatten()) - mean) * weights
    exact = (
        (candidates.view(*found.shape, -1) - queries[:, None]).square().sum(-1).masked_fill_(found < 0, float("inf"))
    )
    found = found.gather(1, exact.argsort(dim=1, stable=True))[:, :k]
    return torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-1)


def _weights(storage: Storage) -> tuple[Tensor, Tensor]:
    """Return 1 / std and mean ``(d,)``, float32, over all rows stored; weight 0 where a dimension is constant."""
    first = storage.features(torch.zeros(1, dtype=torch.int64, device=storage.device))[0].double()
    total, squares, count, shift = torch.zeros_like(first), torch.zeros_like(first), len(storage), first
    for rows in _chunks(storage):
        z = storage.features(rows).double() - shift
        total, squares = total + z.sum(0), squares + (z * z).sum(0)
    mean = total / count
    std = (squares / count - mean * mean).clamp(min=0).sqrt()
    weights = torch.where(std > 1e-9 * (mean + shift).abs(), 1.0 / std, torch.zeros_like(std))
    return weights.float(), (mean + shift).float()


def _chunks(storage: Storage) -> tuple[Tensor, ...]:
    return torch.arange(len(storage), device=storage.device).split(CHUNK)
