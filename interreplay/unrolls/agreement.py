"""How well stored distances serve: elite draws by them against draws for which every candidate is measured anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from interreplay.selection.candidates import ascending
from interreplay.selection.elite import pick
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls

Policy = Callable[[Unrolls], Tensor]
"""Unrolls to what the policy of now gives at their steps, ``(T, B, F)``: a forward pass of the learner's network."""


class Agreement(NamedTuple):
    """One draw, made twice from the same candidates.

    Attributes:
        rank_correlation: Spearman's, of stored and recomputed distances of the candidates; NaN where all are equal.
        overlap: Share of the draw by recomputed distances that the draw by stored ones has too.
        by_chance: What that would be of candidates picked at random.
        distance: Mean recomputed distance of what stored distances picked.
        distance_recomputed: Of what recomputed ones picked.
        distance_uniform: Of all candidates.
    """

    rank_correlation: float
    overlap: float
    by_chance: float
    distance: float
    distance_recomputed: float
    distance_uniform: float


def agreement(
    store: UnrollStore,
    policy: Policy,
    distance: UnrollDistance,
    size: int,
    multiplier: float,
    strategy: int,
    rng: np.random.Generator,
) -> Agreement:
    """Compare picks of an elite draw, which is not made: nothing here changes the store.

    Args:
        store: As learning left it, distances included.
        policy: Measures every candidate anew.
        distance: As `UnrollReplay.distance`.
        size: n of the draw.
        multiplier: λ; ⌊λn⌋ candidates.
        strategy: 1 to 4, as `interreplay.selection.Elite` has them.
        rng: Draws the candidates.
    """
    drawn = rng.integers(0, len(store), max(size, int(multiplier * size)))
    slots = torch.from_numpy(np.unique(drawn, return_index=True)[0])[torch.from_numpy(rng.permutation(len(set(drawn))))]
    candidates = store[slots]
    stored = torch.from_numpy(store.distances(slots.numpy()))
    recomputed = distance(candidates.policy, policy(candidates), candidates.live).cpu()
    replays = torch.from_numpy(store.notes.replays[slots.numpy()])

    def picked(far: Tensor) -> Tensor:
        ranked = ascending(far)
        return ranked[pick(replays[ranked], size, strategy)].unique()

    by_stored, by_recomputed = picked(stored), picked(recomputed)
    constant = bool((stored == stored[0]).all() or (recomputed == recomputed[0]).all())
    return Agreement(
        float("nan") if constant else float(spearmanr(stored, recomputed).statistic),
        float(torch.isin(by_recomputed, by_stored).float().mean()),
        len(by_stored) / len(slots),
        float(recomputed[by_stored].mean()),
        float(recomputed[by_recomputed].mean()),
        float(recomputed.mean()),
    )
