"""LCER: time to draw a batch beside Uniform's, its upkeep per 1,000 added rows, and how far its clusters lag behind.

    python -m benchmarks.clusters [--rows 100000] [--repeats 500] [--data z.npy]

Rows are those of HalfCheetah-v5 under random actions, or what a file holds that `benchmarks.nmer --data` wrote. Buffers
are full; batches of 256 are drawn from them in turn, in one process on one thread. Then 2,000 rows are added one by one and
2,000 in portions of 100, both beyond the capacity. The last table says which share of the rows is not in the cluster of
its nearest centre, in the scale that the clusters use and in the scale of now.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table
from benchmarks.nmer import rows_of, simulate

ADDED = 2_000


def upkeep(buffer: Any, z: np.ndarray, start: int, portion: int) -> tuple[float, list[float]]:
    """Seconds per 1,000 rows without refreshes, and those of each refresh, of adding 2,000 rows of z from `start`."""
    usual, refreshes = [], []
    clustering = buffer.neighborhood.clustering
    for at in range(start, start + ADDED, portion):
        rows, before = rows_of(z, at, at + portion), clustering.refreshed
        begin = time.perf_counter()
        buffer.neighborhood.observe(buffer.storage, buffer.storage.add(rows))
        (usual if clustering.refreshed == before else refreshes).append(time.perf_counter() - begin)
    return sum(usual) / (len(usual) * portion) * 1_000, refreshes


def storing(z: np.ndarray, rows: int, portion: int) -> float:
    """Seconds per 1,000 rows that storing alone takes."""
    from replay_buffers import Uniform

    buffer = Uniform(capacity=rows)
    begin = time.perf_counter()
    for at in range(0, ADDED, portion):
        buffer.add(rows_of(z, at, at + portion))
    return (time.perf_counter() - begin) / ADDED * 1_000


def stale(buffer: Any) -> tuple[float, float]:
    """Shares of rows that are not in the cluster of their nearest centre: in the clusters' scale, in that of now."""
    import copy

    import torch

    clustering, slots = buffer.neighborhood.clustering, np.arange(0, len(buffer), max(1, len(buffer) // 50_000))
    z = buffer.storage.features(torch.from_numpy(slots)).numpy()
    centers, found = copy.deepcopy(clustering.centers), clustering.members.cluster[slots]
    used = float((centers.nearest(z) != found).mean())
    centers.scale.freeze()
    centers.rescale()
    return used, float((centers.nearest(z) != found).mean())


def spread(buffer: Any) -> float:
    """Mean squared distance of a row to its cluster's centre, per dimension, in standardised z; 1 for one cluster."""
    import torch

    clustering, slots = buffer.neighborhood.clustering, np.arange(0, len(buffer), max(1, len(buffer) // 50_000))
    z = buffer.storage.features(torch.from_numpy(slots)).numpy()
    return float(clustering.centers.squared(z).mean() / z.shape[1])


def filled(name: str, z: np.ndarray, rows: int, **arguments: Any) -> Any:
    """A full buffer of the catalogue, filled by 1,000 rows at a time."""
    import replay_buffers

    buffer = getattr(replay_buffers, name)(capacity=rows, seed=0, **arguments)
    for start in range(0, rows, 1_000):
        buffer.add(rows_of(z, start, min(start + 1_000, rows)))
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
    known = arguments.data is not None and arguments.data.exists()
    z = np.load(arguments.data) if known else simulate(rows + 2 * ADDED + 1)
    if arguments.data is not None and not known:
        np.save(arguments.data, z)
    buffers = {"Uniform": filled("Uniform", z, rows)}
    filling: dict[str, float] = {}
    for variant in ("center", "member"):
        begin = time.perf_counter()
        buffers[f"LCER, {variant}"] = filled("LCER", z, rows, variant=variant)
        filling[f"LCER, {variant}"] = time.perf_counter() - begin
    drawn = {name: (lambda buffer=buffer: buffer.sample(256)) for name, buffer in buffers.items()}
    seconds = interleaved(drawn, arguments.repeats, warm_up=20)
    base = np.median(seconds["Uniform"])
    lines = [[n, *(f"{q * 1e6:.0f}" for q in np.quantile(s, [0.5, 0.25, 0.75])), f"{np.median(s) / base:.2f}"]
             for n, s in seconds.items()]  # fmt: skip
    print(table([f"a batch of 256 of {rows}", "µs, median", "25 %", "75 %", "× Uniform"], lines) + "\n", flush=True)
    lines = []
    for name in filling:
        for turn, portion in enumerate((1, 100)):
            usual, refreshes = upkeep(buffers[name], z, rows + turn * ADDED, portion)
            alone = storing(z, rows, portion)
            costs = [f"{(usual - alone) * 1e3:.0f}", f"{np.mean(refreshes) * 1e3:.0f}", f"{max(refreshes) * 1e3:.0f}"]
            lines.append([f"{name}, {portion} at a time", *costs, f"{filling[name]:.1f}"])
    head = ["upkeep per 1,000 added rows, storing not counted", "ms", "refresh, ms", "longest", "filling by 1,000, s"]
    print(table(head, lines) + "\n")
    lines = [[n, *(f"{share:.4f}" for share in stale(buffers[n])), f"{spread(buffers[n]):.3f}"] for n in filling]
    print(table(["rows not with their nearest centre", "scale in use", "scale of now", "d² per dim."], lines))


if __name__ == "__main__":
    main()
