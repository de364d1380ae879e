"""Time of a batch of 256 with every replay method, compared with Uniform, on rows of HalfCheetah-v5.

    python -m benchmarks.speed.methods [--rows 100000] [--repeats 1000] [--without NMER KNNOutcome] [--data z.npy]

All buffers hold the same rows. Batches are drawn from each and from Uniform in turn, in one process on one thread.
Elite's policy and LaBER's scores take almost no time. Continuous Transition is measured with a fixed and with the
adaptive λ, which separates the cost of networks.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import cached, interleaved, single_thread, table
from benchmarks.speed.nmer import make_rows, simulate
from interreplay.part import Context

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "ContinuousTransition": {"fixed λ": {"alpha": 0.75}, "adaptive λ": {}},
    "LCER": {"center": {"variant": "center"}, "member": {"variant": "member"}},
    "S4RL": {"one view": {}, "two views": {"views": 2}},
}
ACTIONS = torch.zeros(1, 6)
FREE = Context(
    policy=lambda obs: ACTIONS.expand(len(obs), 6),
    score=lambda rows, names: dict.fromkeys(names, rows.rewards),
)
"""A policy and scores that take almost no time."""
EXCLUDED = {"HER", "BIER"}  # HER requires goals; BIER has its own benchmark


def buffers(rows: int, z: np.ndarray, without: list[str]) -> dict[str, Any]:
    """Return full buffers of the catalog by name."""
    import replay_buffers

    made: dict[str, Any] = {}
    for name in ["Uniform", *replay_buffers.__all__]:
        if name in EXCLUDED | set(without) | set(made):
            continue
        for variant, arguments in VARIANTS.get(name, {"": {}}).items():
            buffer = getattr(replay_buffers, name)(capacity=rows, seed=0, **arguments)
            buffer.connect(FREE)
            for start in range(0, rows, 20_000):
                buffer.add(make_rows(z, start, min(start + 20_000, rows)))
            made[f"{name}, {variant}" if variant else name] = buffer
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    single_thread()
    z = cached(arguments.data, lambda: simulate(arguments.rows + 1))
    made = buffers(arguments.rows, z, arguments.without)
    lines = []
    for name, buffer in made.items():
        pair = {"Uniform": partial(made["Uniform"].sample, 256), name: partial(buffer.sample, 256)}
        seconds = interleaved(pair, arguments.repeats, warm_up=50)
        ratio = np.median(seconds[name] / seconds["Uniform"])
        lines.append([name, *(f"{np.median(seconds[n]) * 1e6:.0f}" for n in (name, "Uniform")), f"{ratio:.2f}"])
    head = [f"sample(256) of {arguments.rows:,}", "µs, median", "Uniform in the same turns", "×, median of pairs"]
    print(table(head, lines))


if __name__ == "__main__":
    main()
