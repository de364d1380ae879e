"""Cost and recall of NMER's neighbors: the table in `docs/decisions/0002-neighbor-table.md`.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.knn --sizes 10000 100000 1000000

Rows come from HalfCheetah-v5 under three kinds of policies (independent, correlated and periodic actions). For each
size the storage is filled in batches; then rows are added one at a time with a gather for 256 anchors after
each, first up to the capacity (growth), then beyond it (wrapped), then with one feature at three times its scale.
Times are CPU times, which other processes affect less.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch

from benchmarks.measure import cached
from interreplay import Storage, Transitions
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.knn_index.brute_force import nearest

K = 10


def simulate(rows: int, seed: int) -> np.ndarray:
    """Return rows [obs; action] ``(rows, 23)`` of HalfCheetah-v5, a third of the episodes under each kind of policy."""
    environment = gymnasium.make("HalfCheetah-v5")
    rng = np.random.default_rng(seed)
    z = np.empty((rows, 23), np.float32)
    for episode, start in enumerate(range(0, rows, 1000)):
        obs, _ = environment.reset(seed=seed + episode)
        frequency = rng.uniform(0.1, 0.6)
        noise = rng.uniform(0.05, 0.4)
        phase = rng.uniform(0, 6.28, 6)
        amplitude = rng.uniform(0.3, 1, 6)
        offset = rng.uniform(-0.3, 0.3, 6)
        action = np.zeros(6)
        for step in range(min(1000, rows - start)):
            if episode % 3 == 0:
                action = rng.uniform(-1, 1, 6)
            elif episode % 3 == 1:
                action = np.clip(0.9 * action + 0.4 * rng.normal(size=6), -1, 1)
            else:
                wave = amplitude * np.sin(frequency * step + phase) + offset
                action = np.clip(wave + noise * rng.normal(size=6), -1, 1)
            z[start + step] = np.concatenate([obs, action])
            obs = environment.step(action)[0]
    return z


def transitions(z: np.ndarray) -> Transitions:
    """Return transitions with the features `z` ``(n, 23)``; rewards and next observations do not matter here."""
    obs = z[:, :17]
    nothing = np.zeros(len(z), bool)
    return Transitions(obs, z[:, 17:], np.zeros(len(z), np.float32), obs, nothing, nothing, np.zeros(len(z), np.int64))


def recall(storage: Storage, knn: KNN, sample: int) -> float:
    """Return the share of the k neighbors that exact search finds, too, as a mean over a sample of the rows."""
    slots = torch.from_numpy(np.random.default_rng(0).choice(len(storage), sample, replace=False))
    found = knn.neighbors(storage, slots)
    exact = nearest(storage, slots, K)
    return float((found[:, :, None] == exact[:, None, :]).any(2).float().mean())


def _add(storage: Storage, knn: KNN, rows: Transitions) -> float:
    """Add rows; return the seconds of `evict` and `observe`."""
    replaced = storage.next_replaced(len(rows))
    begin = time.process_time()
    knn.evict(storage, replaced)
    spent = time.process_time() - begin
    slots = storage.add(rows)
    begin = time.process_time()
    knn.observe(storage, slots)
    return spent + time.process_time() - begin


def fill(storage: Storage, knn: KNN, z: np.ndarray) -> float:
    """Add `z` in batches; return the microseconds of `evict` and `observe` per row."""
    spent = 0.0
    for start in range(0, len(z), 50_000):
        spent += _add(storage, knn, transitions(z[start : start + 50_000]))
    return spent / max(len(z), 1) * 1e6


def step(storage: Storage, knn: KNN, z: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Add `z` row by row with a gather after each row.

    Returns:
        Microseconds of `evict` and `observe` per row, and of each gather ``(n, 2)``: of neighbors' slots, and of the
        anchors' rows as in a plain buffer.
    """
    spent = 0.0
    gathers = []
    for row in range(len(z)):
        spent += _add(storage, knn, transitions(z[row : row + 1]))
        anchors = torch.from_numpy(rng.integers(0, len(storage), 256))
        begin = time.process_time()
        knn.neighbor_slots(storage, anchors, rng)
        middle = time.process_time()
        storage[anchors]
        gathers.append((middle - begin, time.process_time() - middle))
    return spent / len(z) * 1e6, np.array(gathers) * 1e6


def measure(z: np.ndarray, size: int, steps: int, sample: int) -> None:
    """Print the lines of one size; added rows are `z` from row `size` on, or its first rows if there are no more."""
    storage = Storage(size)
    knn = KNN(k=K)
    rng = np.random.default_rng(1)
    filling = fill(storage, knn, z[: size - steps])
    per_row = knn.nbytes(size, z.shape[1]) / size
    rows = np.resize(z[size:], (2 * steps, z.shape[1])) if len(z) > size else z[: 2 * steps] + np.float32(1e-3)
    line("filled in batches", storage, filling, None, recall(storage, knn, sample), per_row)
    for name, part in (("growth", z[size - steps : size]), ("wrapped", rows[:steps])):
        spent, gathers = step(storage, knn, part, rng)
        line(name, storage, spent, gathers, recall(storage, knn, sample), per_row)
    tripled = rows[steps:].copy()
    tripled[:, 8] *= 3 * (size / steps) ** 0.5  # few rows, so far out that the deviation of all rows triples
    spent = fill(storage, knn, tripled)
    line("scale tripled by a batch", storage, spent, None, recall(storage, knn, sample), per_row)
    spent, gathers = step(storage, knn, rows[: min(steps, 200)], rng)
    line("the steps after", storage, spent, gathers, recall(storage, knn, sample), per_row)


def line(name: str, storage: Storage, add: float, gathers: np.ndarray | None, right: float, per_row: float) -> None:
    """Print a line of the table."""
    costs = "– | – | –"
    if gathers is not None:
        costs = f"{np.median(gathers[:, 0]):.0f} | {gathers[:, 0].mean():.0f} | {np.median(gathers[:, 1]):.0f}"
    print(f"| {len(storage):,} | {name} | {right:.4f} | {add:.0f} | {costs} | {per_row:.0f} |", flush=True)


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="rows stored")
    parser.add_argument("--steps", type=int, default=3000, help="rows added one at a time in each phase")
    parser.add_argument("--sample", type=int, default=300, help="rows over which recall is averaged")
    parser.add_argument("--data", type=Path, help=".npy file of rows (n, 23); simulated and written when absent")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    z = cached(arguments.data, lambda: simulate(max(arguments.sizes) + 2 * arguments.steps, arguments.seed))
    print("| rows | phase | recall@10 | µs/added row | µs/256 neighbors, median | mean | µs/256 rows | bytes/row |")
    print("|---|---|---|---|---|---|---|---|")
    for size in arguments.sizes:
        measure(z, size, min(arguments.steps, size // 4), arguments.sample)


if __name__ == "__main__":
    main()
