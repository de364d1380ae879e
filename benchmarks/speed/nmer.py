"""NMER's batches compared with Uniform's, and its cost per added row, on HalfCheetah-v5 with random actions.

    python -m benchmarks.speed.nmer [--rows 1000000] [--repeats 1000] [--data z.npy]

Both buffers hold the same rows; batches of 256 are drawn from them in turn, in one process on one thread. Then rows are
added one by one with a batch between them. ``--data`` caches the simulated z = [s; a] in a file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import cached, interleaved, single_thread, table

OBS = 17


def simulate(rows: int) -> np.ndarray:
    """Return rows z = [s; a] of `rows` steps of random actions, float32 ``(rows, 23)``."""
    import gymnasium as gym

    env = gym.make("HalfCheetah-v5")
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    found = np.empty((rows, OBS + 6), np.float32)
    for i in range(rows):
        action = env.action_space.sample()
        found[i] = np.concatenate([obs, action])
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    return found


def make_rows(z: np.ndarray, start: int, stop: int) -> Any:
    """Return transitions `start` to `stop` of a walk through z, in episodes of 1,000."""
    from interreplay import Transitions

    n = stop - start
    zeros = np.zeros(n, bool)
    episode = np.arange(start, stop) // 1_000
    obs = z[start:stop, :OBS]
    actions = z[start:stop, OBS:]
    next_obs = z[start + 1 : stop + 1, :OBS]
    return Transitions(obs, actions, np.zeros(n, np.float32), next_obs, zeros, zeros, episode)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument("--added", type=int, default=3_000, help="rows added one by one")
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    single_thread()
    from replay_buffers import NMER, Uniform

    need = arguments.rows + arguments.added + 1
    z = cached(arguments.data, lambda: simulate(need))
    buffers = {"Uniform": Uniform(capacity=arguments.rows, seed=0), "NMER": NMER(capacity=arguments.rows, seed=0)}
    for buffer in buffers.values():
        for start in range(0, arguments.rows, 20_000):
            buffer.add(make_rows(z, start, min(start + 20_000, arguments.rows)))
    print(f"{arguments.rows:,} rows, none overwritten\n\n{drawn(buffers, arguments.repeats)}\n", flush=True)
    lines = [[n, f"{added(b, z, arguments):.0f}"] for n, b in buffers.items()]
    print(table(["adding a row over another", "µs of processor time, mean"], lines))
    print(f"\n{arguments.added:,} of them overwritten\n\n{drawn(buffers, arguments.repeats)}")


def drawn(buffers: dict[str, Any], repeats: int) -> str:
    """Return a table of the time that batches of 256 take."""
    draw = {name: (lambda b=buffer: b.sample(256)) for name, buffer in buffers.items()}
    seconds = interleaved(draw, repeats, warm_up=200)
    lines = [[n, f"{np.median(s) * 1e6:.0f}", f"{np.median(s / seconds['Uniform']):.2f}"] for n, s in seconds.items()]
    return table(["sample(256)", "µs, median", "× Uniform, median of pairs"], lines)


def added(buffer: Any, z: np.ndarray, arguments: argparse.Namespace) -> float:
    """Return the µs of processor time per added row; a batch is drawn after each row and does not count."""
    spent = 0.0
    for i in range(arguments.rows, arguments.rows + arguments.added):
        row = make_rows(z, i, i + 1)
        start = time.process_time()
        buffer.add(row)
        spent += time.process_time() - start
        buffer.sample(256)
    return spent / arguments.added * 1e6


if __name__ == "__main__":
    main()
