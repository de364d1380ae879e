"""Time of storing, drawing and mixing unrolls, without networks: ``python -m benchmarks.speed.unrolls``.

One thread. 32 unrolls of 20 steps: MinAtar's grids (10 × 10 × 4 bool) and Atari's stacks (4 × 84 × 84). "mix" is one
iteration of the loop with half of each batch replayed: 16 new unrolls are added, a batch of 32 is drawn, and its
distances are updated.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measure import interleaved, single_thread, table
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls, cat

STEPS = 20
SIZE = 32
ACTIONS = 6
STACK = 4
REPEATS = 101
SOURCES: dict[str, dict[str, object]] = {
    "uniform": {"type": "uniform"},
    "reservoir": {"type": "uniform", "insertion": "reservoir"},
    "prioritized": {"type": "prioritized"},
    "attentive": {"type": "attentive"},
    "elite 1": {"type": "elite", "strategy": 1},
    "elite 3": {"type": "elite", "strategy": 3},
    "elite 3, elite insertion": {"type": "elite", "strategy": 3, "insertion": "elite"},
}


def unrolls(obs: np.ndarray, rng: np.random.Generator) -> Unrolls:
    """Return unrolls with these observations ``(T + 1, B, ...)``."""
    shape = obs.shape[0] - 1, obs.shape[1]
    return Unrolls(
        obs=obs,
        actions=rng.integers(0, ACTIONS, shape),
        rewards=rng.random(shape),
        terminated=rng.random(shape) < 0.01,
        policy=rng.normal(size=(*shape, ACTIONS)).astype(np.float32),
        values=rng.random(shape),
    )


def grids(size: int, rng: np.random.Generator) -> Unrolls:
    """Return unrolls of MinAtar's grids."""
    return unrolls(rng.random((STEPS + 1, size, 10, 10, 4)) < 0.1, rng)


def stacks(size: int, rng: np.random.Generator) -> Unrolls:
    """Return unrolls of Atari's stacks; a tenth contains a reset that repeats its frame."""
    frames = rng.integers(0, 256, (STEPS + STACK, size, 84, 84)).astype(np.uint8)
    obs = np.stack([frames[t : t + STACK].swapaxes(0, 1) for t in range(STEPS + 1)])
    for unroll in range(0, size, 10):
        first = frames[10 + STACK - 1, unroll]
        for age in range(STACK):
            obs[10 + age, unroll, : STACK - age] = first
    return unrolls(obs, rng)


def parts(made: list[Unrolls], capacity: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return functions that add to and draw from a full store, by name."""
    store = UnrollStore(capacity)
    turns = itertools.cycle(made)
    while store.written < capacity:
        store.add(next(turns), rng)

    def draw() -> Unrolls:
        return cat([store[torch.from_numpy(rng.integers(0, capacity, SIZE))]])

    return {"add": lambda: store.add(next(turns), rng), "draw": draw}


def mixes(made: list[Unrolls], capacity: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return a function that makes one iteration of the loop, for each kind of replay."""

    def turn_of(source: dict[str, object]) -> Callable[[], object]:
        mix = make_mix([{"type": "queue", "share": 0.5}, {**source, "share": 0.5, "capacity": capacity}])
        turns = itertools.cycle(made)
        noise = torch.randn(STEPS, SIZE, ACTIONS)

        def turn() -> None:
            mix.add(next(turns)[: SIZE // 2], rng)
            batch = mix.batch(SIZE, rng)
            mix.update(batch, batch.policy + noise, errors=batch.rewards.mean(0))
            again = mix.to_refresh(rng)
            if again is not None:
                mix.update(again, again.policy)

        mix.add(made[0], rng)
        while len(mix.sources[str(source["type"])]) < capacity:
            turn()
        return turn

    return {f"mix, {name}": turn_of(source) for name, source in SOURCES.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    single_thread()
    rng = np.random.default_rng(0)
    rows = []
    for what, make, capacity in (("MinAtar", grids, 2_000), ("Atari", stacks, 200)):
        made = [make(SIZE, rng) for _ in range(2)]
        contenders = parts(made, capacity, rng) | (mixes(made, capacity, rng) if make is grids else {})
        for name, seconds in interleaved(contenders, REPEATS if make is grids else 21, clock=time.process_time).items():
            median = float(np.median(seconds))
            new = SIZE // 2 if "mix" in name else SIZE
            rows.append([what, name, f"{median / new * 1e6:.1f}", f"{median / new / STEPS * 1e6:.2f}"])
    print(table(["observations", "what", "µs per unroll", "µs per env step"], rows))


if __name__ == "__main__":
    main()
