"""LCER: time of a batch compared with Uniform, upkeep per row compared with a SAC update, outdated cluster assignments.

    python -m benchmarks.speed.clusters [--rows 100000] [--repeats 500] [--data z.npy]

The rows are transitions of HalfCheetah-v5 with random actions, or a file that `benchmarks.speed.nmer --data` wrote.
Buffers are full; batches of 256 are drawn from them in turn, in one process on one thread. Then 2,000 rows are added
one by one and 2,000 in portions of 100, both beyond the capacity, with updates of SAC (batch 256, two layers of 256) in
between. Upkeep is the neighborhood's processor time, without storing the rows. The last table
shows the share of rows that are not in the cluster of the nearest center, in the scale that the clusters use and in the
current scale.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import cached, interleaved, single_thread, table
from benchmarks.speed.bier import sac_update
from benchmarks.speed.nmer import make_rows, simulate

ADDED = 2_000
UPDATES = 50  # SAC updates while the rows are added


def measure_seconds(run: Callable[[], object]) -> float:
    """Return the processor time of a call in seconds."""
    start = time.process_time()
    run()
    return time.process_time() - start


def upkeep(buffer: Any, z: np.ndarray, start: int, portion: int) -> tuple[list[float], list[float], list[float]]:
    """Return seconds of `evict` and `observe` without a refresh, with a refresh, and of SAC updates in between."""
    usual: list[float] = []
    refreshes: list[float] = []
    updates: list[float] = []
    clustering = buffer.neighborhood.clustering
    update = sac_update(buffer)
    for at in range(start, start + ADDED, portion):
        storage = buffer.storage
        before = clustering.refreshed
        replaced = storage.next_replaced(portion)
        spent = measure_seconds(partial(buffer.neighborhood.evict, buffer.storage, replaced))
        slots = storage.add(make_rows(z, at, at + portion))
        spent += measure_seconds(partial(buffer.neighborhood.observe, buffer.storage, slots))
        (usual if clustering.refreshed == before else refreshes).append(spent)
        if (at - start) % (ADDED // UPDATES) < portion:
            updates.append(measure_seconds(update))
    return usual, refreshes, updates


def assignments(buffer: Any) -> tuple[float, float, float]:
    """Return the shares of rows outside their nearest center's cluster, and the spread of the clusters.

    The shares are those in the clusters' scale and in the current one. The spread is the mean squared distance to the
    cluster's center per dimension of standardized z, 1 for one cluster.
    """
    import torch

    clustering = buffer.neighborhood.clustering
    slots = np.arange(0, len(buffer), max(1, len(buffer) // 50_000))
    z = buffer.storage.features(torch.from_numpy(slots)).numpy()
    rescaled = copy.copy(clustering)
    rescaled.scale = copy.deepcopy(clustering.scale)
    found = clustering.members.cluster[slots]
    spread = float(clustering.squared(z).mean() / z.shape[1])
    used = float((clustering.nearest(z) != found).mean())
    rescaled.scale.freeze()
    rescaled.use_centers(clustering.centers)
    return used, float((rescaled.nearest(z) != found).mean()), spread


def filled(name: str, z: np.ndarray, rows: int, **arguments: Any) -> Any:
    """Return a full buffer of the catalog, filled by 1,000 rows at a time."""
    import replay_buffers

    buffer = getattr(replay_buffers, name)(capacity=rows, seed=0, **arguments)
    for start in range(0, rows, 1_000):
        buffer.add(make_rows(z, start, min(start + 1_000, rows)))
    return buffer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    single_thread()
    rows = arguments.rows
    z = cached(arguments.data, lambda: simulate(rows + 2 * ADDED + 1))
    buffers = {"Uniform": filled("Uniform", z, rows)}
    filling: dict[str, float] = {}
    for variant in ("center", "member"):
        begin = time.perf_counter()
        buffers[f"LCER, {variant}"] = filled("LCER", z, rows, variant=variant)
        filling[f"LCER, {variant}"] = time.perf_counter() - begin
    drawn = {name: (lambda buffer=buffer: buffer.sample(256)) for name, buffer in buffers.items()}
    seconds = interleaved(drawn, arguments.repeats, warm_up=20)
    base = np.median(seconds["Uniform"])
    lines = []
    for name, values in seconds.items():
        low, middle, high = (f"{quantile * 1e6:.0f}" for quantile in np.quantile(values, [0.25, 0.5, 0.75]))
        lines.append([name, middle, low, high, f"{np.median(values) / base:.2f}"])
    print(table([f"a batch of 256 of {rows}", "µs, median", "25 %", "75 %", "× Uniform"], lines) + "\n", flush=True)
    lines = []
    for name in filling:
        for turn, portion in enumerate((1, 100)):
            usual, refreshes, updates = upkeep(buffers[name], z, rows + turn * ADDED, portion)
            per_row = np.mean(refreshes) / max(1_000, portion)
            costs = [f"{np.mean(usual) / portion * 1e6:.0f}", f"{np.mean(refreshes) * 1e3:.0f}"]
            costs += [f"{np.median(updates) * 1e3:.1f}", f"{per_row / np.median(updates):.4f}"]
            lines.append([f"{name}, {portion} at a time", *costs, f"{filling[name]:.1f}"])
    head = ["upkeep", "ms per 1,000 rows", "ms per refresh", "ms per SAC update", "refresh per row ÷ update"]
    print(table([*head, "filling by 1,000, s"], lines) + "\n")
    lines = []
    for name in filling:
        used, current, spread = assignments(buffers[name])
        lines.append([name, f"{used:.4f}", f"{current:.4f}", f"{spread:.3f}"])
    print(table(["rows not with their nearest center", "scale in use", "current scale", "d² per dim."], lines))


if __name__ == "__main__":
    main()
