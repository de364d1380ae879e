"""Collect transitions of random and of trained behavior for `benchmarks.learning.bier_quality`.

    python -m benchmarks.learning.bier_data [--env HalfCheetah-v5] [--rows 10000] [--steps 40000] [--folder data]

Random: uniform actions. Trained: the newest rows of SAC's buffer after `--steps` steps of training with uniform replay.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import quiet_single_thread
from benchmarks.training import COLUMNS, random_columns


def newest(buffer: Any, rows: int) -> dict[str, np.ndarray]:
    """Return the columns of the newest rows of a buffer."""
    import torch

    stored = buffer.storage
    slots = torch.arange(stored.written - rows, stored.written) % stored.capacity
    found = stored[slots]
    return {name: getattr(found, name).numpy() for name in COLUMNS}


def trained_behavior(env: str, rows: int, steps: int) -> tuple[dict[str, Any], float]:
    """Return the newest rows after training, and the mean return of the last episodes."""
    from interreplay.rllib import SACConfig

    config = SACConfig().environment(env).replay("Uniform", capacity=steps).debugging(seed=0)
    algorithm = config.training(steps_per_iteration=1_000).build_algo()
    for _ in range(steps // 1_000):
        result = algorithm.train()
    return newest(algorithm.replay_buffer, rows), float(result["env_runners"]["episode_return_mean"])


def main() -> None:
    """Collect and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=40_000, help="env steps of training")
    parser.add_argument("--folder", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    quiet_single_thread()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.folder / f"{arguments.env}-random.npz", **random_columns(arguments.env, arguments.rows))
    columns, score = trained_behavior(arguments.env, arguments.rows, arguments.steps)
    np.savez(arguments.folder / f"{arguments.env}-trained.npz", **columns)
    print(f"{arguments.env}: {arguments.rows} rows each; mean return after {arguments.steps} steps {score:.0f}")


if __name__ == "__main__":
    main()
