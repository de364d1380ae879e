"""Elite replay by stored and by recomputed distances: ``python -m benchmarks.speed.unroll_distances``.

A softmax policy of 12 inputs and 6 actions drifts. Batches consist of 32 unrolls of 20 steps, half of them replayed by
strategies of `Elite` with six candidates per unroll. No network learns: only the age of the distances matters.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from benchmarks.measure import single_thread, table
from interreplay.selection.candidates import stable_order
from interreplay.selection.elite import choose_ranks
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls

STEPS = 20
INPUTS = 12
ACTIONS = 6
SIZE = 32
UPDATES = 1_200
Policy = Callable[[Unrolls], Tensor]
"""Maps unrolls to the outputs of the current policy ``(T, B, F)``."""


class ConstantDistances(UnrollStore):
    """A store that does not extrapolate distances since their last measurement."""

    growth = 0.0


class Agreement(NamedTuple):
    """A draw by stored distances compared with a draw by recomputed distances of the same candidates.

    Attributes:
        rank_correlation: Spearman's correlation of the distances; NaN if all are equal.
        overlap: Share of the draw by recomputed distances that is also drawn by stored distances.
        by_chance: Expected overlap of a random draw.
        distance: Mean recomputed distance of the draw by stored distances.
        distance_recomputed: Mean recomputed distance of the draw by recomputed distances.
        distance_uniform: Mean recomputed distance of all candidates.
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
    """Compare the two draws without changing the store.

    Args:
        store: Store of the unrolls and their distances.
        policy: The current policy.
        distance: Distance of policies, see `UnrollReplay`.
        size: Size n of the draw.
        multiplier: λ; ⌊λn⌋ candidates.
        strategy: Strategy of `interreplay.selection.Elite`, 1 to 4.
        rng: Generator that draws the candidates.
    """
    drawn = np.unique(rng.integers(0, len(store), max(size, int(multiplier * size))))
    slots = torch.from_numpy(rng.permutation(drawn))
    candidates = store[slots]
    stored = torch.from_numpy(store.distances(slots.numpy()))
    recomputed = distance(candidates.policy, policy(candidates), candidates.live).cpu()
    replays = torch.from_numpy(store.notes["replays"][slots.numpy()])

    def picked(distances: Tensor) -> Tensor:
        ranked = stable_order(distances)
        return ranked[choose_ranks(replays[ranked], size, strategy)].unique()

    by_stored = picked(stored)
    by_recomputed = picked(recomputed)
    constant = bool((stored == stored[0]).all() or (recomputed == recomputed[0]).all())
    return Agreement(
        rank_correlation=float("nan") if constant else float(spearmanr(stored, recomputed).statistic),
        overlap=float(torch.isin(by_recomputed, by_stored).float().mean()),
        by_chance=len(by_stored) / len(slots),
        distance=float(recomputed[by_stored].mean()),
        distance_recomputed=float(recomputed[by_recomputed].mean()),
        distance_uniform=float(recomputed.mean()),
    )


def outputs(weights: Tensor, unrolls: Unrolls) -> Tensor:
    """Return the outputs of a linear policy at the steps of unrolls."""
    return unrolls.obs[:-1] @ weights


def run(capacity: int, growth: bool, updates: int = UPDATES, **settings: Any) -> Agreement:
    """Return the mean agreement over the second half of a run."""
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    elite = {"type": "elite", "share": 0.5, "capacity": capacity, "alpha": 1.0, **settings}
    mix = make_mix([{"type": "queue", "share": 0.5}, elite])
    replay: Any = mix.sources["elite"]
    if not growth:
        replay.store = ConstantDistances(capacity, replay.store.insertion)
    store = replay.store
    found = []
    weights = 0.3 * torch.randn(INPUTS, ACTIONS, generator=generator)
    drift = torch.zeros(INPUTS, ACTIONS)
    empty: dict[str, Any] = {
        name: np.zeros((STEPS, SIZE // 2)) for name in ("actions", "rewards", "terminated", "values")
    }
    for update in range(updates):
        obs = torch.randn(STEPS + 1, SIZE // 2, INPUTS, generator=generator)
        mix.add(Unrolls(obs=obs, policy=obs[:-1] @ weights, version=update, **empty), rng)
        if not mix.ready(SIZE):
            continue
        batch = mix.batch(SIZE, rng)
        drift = 0.98 * drift + 0.2 * torch.randn(INPUTS, ACTIONS, generator=generator)
        weights = 0.9995 * weights + 0.005 * drift
        for part in (batch, mix.to_refresh(rng)):
            if part is not None:
                mix.update(part, outputs(weights, part))
        if update > updates // 2 and update % 20 == 0:
            found.append(
                agreement(
                    store,
                    policy=functools.partial(outputs, weights),
                    distance=UnrollDistance(),
                    size=SIZE // 2,
                    multiplier=6.0,
                    strategy=elite["strategy"],
                    rng=np.random.default_rng(update),
                )
            )
    return Agreement(*np.mean(found, axis=0).tolist())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    single_thread()
    rows = []
    for capacity in (1_000, 5_000):
        for strategy in (1, 3):
            for refresh, growth in ((4, False), (0, True), (4, True), (16, True)):
                found = run(capacity, growth, strategy=strategy, refresh=refresh)
                means = (found.distance, found.distance_recomputed, found.distance_uniform)
                distances = " · ".join(f"{mean:.3f}" for mean in means)
                shares = [f"{share:.2f}" for share in (found.rank_correlation, found.overlap, found.by_chance)]
                rows.append([capacity, strategy, refresh, "yes" if growth else "no", *shares, distances])
    header = ["capacity", "strategy", "refresh", "growth", "rank correlation", "overlap", "by chance"]
    print(table([*header, "distance: stored · recomputed · uniform"], rows))


if __name__ == "__main__":
    main()
