"""Returns of uniformly random actions, 20 episodes per task.

python -m benchmarks.learning.random_returns FILE ENV ...
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import numpy as np

from interreplay.environments.registration import register

EPISODES = 20


def random_returns(name: str) -> list[float]:
    """Return the return of each episode; the n-th is reset with the seed 1000 + n."""
    env = gym.make(name)
    env.action_space.seed(0)
    found = []
    for episode in range(EPISODES):
        env.reset(seed=1000 + episode)
        total = 0.0
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total += float(reward)
            over = terminated or truncated
        found.append(total)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the environments and write their means and deviations."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning.random_returns", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("envs", nargs="+")
    args = parser.parse_args(argv)
    measured = {}
    for name in args.envs:
        register(name)
        returns = random_returns(name)
        measured[name] = {"mean": float(np.mean(returns)), "sd": float(np.std(returns, ddof=1)), "episodes": EPISODES}
        print(name, measured[name])
    args.file.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
