"""Draw the gait of a HalfCheetah: ``python -m benchmarks.learning.poses RUN FIGURE``.

If the return stops rising near 1,000, the cheetah may have learned to slide on its back. The angle of its trunk shows
it: 0 is upright, π is on its back.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.measure import existing

ENV = "HalfCheetah-v5"
STEPS = 1_000
SHOWN = (0, 10, 20, 30, 50, 100, 400, 800)
EPISODES = 5
TRUNK = 2
"""Index of the trunk's angle in the positions."""


def load_policy(run: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Return the deterministic policy of a run's newest checkpoint, from an observation to an action."""
    import torch

    from interreplay.experiments.evaluation.load import build_algorithm, read_config, restore
    from interreplay.runs.checkpoints import find

    checkpoint = find(run)[0]
    algorithm: Any = build_algorithm(read_config(checkpoint))
    restore(algorithm, checkpoint)
    module = algorithm.learner.single_module

    def act(observation: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module.policy.act(torch.as_tensor(observation, dtype=torch.float32)[None])[0].numpy()

    return act


def play(act: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[float, np.ndarray]:
    """Play an episode; return its return, and positions and velocities before each step ``(1000, 18)``."""
    env: Any = gym.make(ENV)
    observation, _ = env.reset(seed=seed)
    total = 0.0
    states = []
    for _ in range(STEPS):
        data = env.unwrapped.data
        states.append(np.concatenate([data.qpos, data.qvel]))
        observation, reward, *_ = env.step(np.clip(act(observation), -1, 1))
        total += float(reward)
    return total, np.array(states)


def on_its_back(states: np.ndarray) -> float:
    """Return the share of steps in which the trunk is turned by more than a right angle."""
    return float((np.cos(states[:, TRUNK]) < 0).mean())


def draw(states: np.ndarray) -> plt.Figure:
    """Return a picture of some of the states ``(1000, 18)``, seen from the side."""
    env: Any = gym.make(ENV).unwrapped
    env.reset(seed=0)
    figure, axes = plt.subplots(2, len(SHOWN) // 2, figsize=(11, 3.6), layout="constrained")
    for axis, step in zip(axes.flat, SHOWN, strict=True):
        env.set_state(states[step, :9], states[step, 9:])
        model = env.model
        data = env.data
        for i in range(model.ngeom):
            if model.geom(i).name == "floor":
                continue
            half = data.geom_xmat[i].reshape(3, 3)[:, 2] * model.geom_size[i, 1]
            ends = np.stack([data.geom_xpos[i] - half, data.geom_xpos[i] + half])
            color = "#D55E00" if model.geom(i).name == "head" else "#1F83C4"
            axis.plot(ends[:, 0], ends[:, 2], color=color, lw=6, solid_capstyle="round")
        middle = states[step, 0]
        axis.axhline(0, color="0.5", lw=1)
        axis.set(title=f"step {step}", xlim=(middle - 1.1, middle + 1.1), ylim=(-0.1, 1.4), aspect="equal")
        axis.axis("off")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Play episodes, print their returns and draw the first one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.poses", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=existing, help="a run's folder, or .npz with states (1000, 18) of one episode each")
    parser.add_argument("figure", type=Path)
    args = parser.parse_args(argv)
    if args.run.suffix == ".npz":
        kept = np.load(args.run)
        episodes = [(float("nan"), kept[name]) for name in kept.files]
    else:
        act = load_policy(args.run)
        episodes = [play(act, seed) for seed in range(EPISODES)]
    for total, states in episodes:
        print(f"return {total:,.0f}, on its back in {on_its_back(states):.0%} of the steps, {states[-1, 0]:.0f} m")
    draw(episodes[0][1]).savefig(args.figure, dpi=100)


if __name__ == "__main__":
    main()
