"""Elite replay: stored distances against distances measured again for each candidate.

A softmax policy of 12 inputs and 6 actions drifts; batches of 32 unrolls of 20 steps, half of them replayed, strategies
of `Elite` with six candidates per unroll. No network learns: what is looked at is the age of distances alone.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measure import single_thread, table
from interreplay.unrolls.agreement import Agreement, agreement
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.storage.slot_notes import SlotNotes
from interreplay.unrolls.unrolls import Unrolls

STEPS, INPUTS, ACTIONS, SIZE, UPDATES = 20, 12, 6, 32, 1_200


class Constant(SlotNotes):
    """Notes that take distances as they were measured last."""

    growth = 0.0  # type: ignore[assignment]


def gives(weights: Tensor, some: Unrolls) -> Tensor:
    """Return what a policy gives at the steps of unrolls."""
    return some.obs[:-1] @ weights


def run(capacity: int, growth: bool, **settings: Any) -> Agreement:
    """Return the mean agreement over the second half of a run."""
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    elite = {"type": "elite", "share": 0.5, "capacity": capacity, "alpha": 1.0, **settings}
    mix = make_mix([{"type": "queue", "share": 0.5}, elite])
    store, found = mix.sources["elite"].store, []  # type: ignore[attr-defined]
    store.notes = store.notes if growth else Constant(capacity)
    weights, drift = 0.3 * torch.randn(INPUTS, ACTIONS, generator=generator), torch.zeros(INPUTS, ACTIONS)
    empty = {name: np.zeros((STEPS, SIZE // 2)) for name in ("actions", "rewards", "terminated", "values")}
    for update in range(UPDATES):
        obs = torch.randn(STEPS + 1, SIZE // 2, INPUTS, generator=generator)
        mix.add(Unrolls(obs=obs, policy=obs[:-1] @ weights, version=update, **empty), rng)
        if not mix.ready(SIZE):
            continue
        batch = mix.batch(SIZE, rng)
        drift = 0.98 * drift + 0.2 * torch.randn(INPUTS, ACTIONS, generator=generator)
        weights = 0.9995 * weights + 0.005 * drift
        for part in (batch, mix.to_refresh(rng)):
            if part is not None:
                mix.update(part, gives(weights, part))
        if update > UPDATES // 2 and update % 20 == 0:
            now = functools.partial(gives, weights)
            how = UnrollDistance(), SIZE // 2, 6.0, elite["strategy"], np.random.default_rng(update)
            found.append(agreement(store, now, *how))
    return Agreement(*np.mean(found, axis=0).tolist())


def main() -> None:
    """Measure and print."""
    single_thread()
    rows = []
    for capacity in (1_000, 5_000):
        for strategy in (1, 3):
            for refresh, growth in ((4, False), (0, True), (4, True), (16, True)):
                found = run(capacity, growth, strategy=strategy, refresh=refresh)
                means = found.distance, found.distance_recomputed, found.distance_uniform
                rank = f"{found.rank_correlation:.2f}", f"{found.overlap:.2f}", f"{found.by_chance:.2f}"
                far = " · ".join(f"{mean:.3f}" for mean in means)
                rows.append([capacity, strategy, refresh, "yes" if growth else "no", *rank, far])
    header = ["capacity", "strategy", "refresh", "growth", "rank correlation", "overlap", "by chance"]
    print(table([*header, "distance: stored · anew · uniform"], rows))


if __name__ == "__main__":
    main()
