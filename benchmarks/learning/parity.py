"""Returns of SAC and TD3 with uniform replay, compared with Stable-Baselines3: HalfCheetah-v5, 50,000 steps.

    python -m benchmarks.learning.parity                  # executes missing runs, one after the other, then redraws
    python -m benchmarks.learning.parity --draw           # redraws from benchmarks/data/parity
    python -m benchmarks.learning.parity --setup study_a  # the settings of studies/td3_nmer_ratio.yaml, 12,000 steps

Both use the same networks, batches, learning rates (3e-4), random steps and updates per step. Both are evaluated for 5
episodes of the deterministic policy at regular intervals. An interrupted run restarts from the beginning.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.curves import BENCHMARKS, COLUMNS, draw_seeds, train
from benchmarks.measure import require, table, write_rows

ENV = "HalfCheetah-v5"
EPISODES = 5
PROGRAMS = ("interreplay", "Stable-Baselines3")
PUBLISHED = {20_000: (532, 941, 1_491), 25_000: (696, 1_533, 2_092), 30_000: (861, 2_124, 2_693)}
PUBLISHED |= {40_000: (1_968, 3_196, 3_808), 50_000: (3_463, 4_212, 4_879)}
"""Minimum, mean and maximum return of ten seeds of SAC on HalfCheetah-v4, stored with SimbaV2 (arXiv:2502.15280)."""


@dataclass(frozen=True)
class Setup:
    """Settings of both programs, and published results for comparison.

    Attributes:
        name: Name of the folder and the figure.
        trainers: Algorithms to compare.
        steps: Env steps of a run.
        every: Steps between evaluations.
        starts: Random steps.
        batch: Rows per update.
        width: Width of each of the two hidden layers.
        published: Minimum, mean and maximum return of SAC by env steps, if published.
    """

    name: str
    trainers: tuple[str, ...]
    steps: int
    every: int
    starts: int
    batch: int
    width: int
    published: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Folder of the evaluations."""
        return BENCHMARKS / "data" / self.name

    @property
    def figure(self) -> Path:
        """Path of the figure."""
        return BENCHMARKS / "figures" / f"{self.name}.png"


PARITY = Setup("parity", ("SAC", "TD3"), 50_000, 5_000, 5_000, 256, 256, PUBLISHED)
STUDY_A = Setup("parity_study_a", ("TD3",), 12_000, 1_000, 1_000, 128, 128)
INGREDIENTS = Setup("parity_ingredients", ("SAC",), 12_000, 1_000, 1_000, 256, 256)
SETUPS = {"parity": PARITY, "study_a": STUDY_A, "ingredients": INGREDIENTS}


def ours(setup: Setup, trainer: str, seed: int, /, **changed: Any) -> list[tuple[float, float]]:
    """Train as a user would, with changed flags; return env steps and evaluation returns."""
    flags = {"trainer": trainer, "env": ENV, "seed": seed, "total_env_steps": setup.steps, "preset": "none"}
    flags |= {"learning_starts": setup.starts, "steps_per_iteration": setup.every, "evaluation_interval": 1}
    flags |= {"hiddens": f"{setup.width},{setup.width}", "train_batch_size": setup.batch}
    flags |= {"evaluation_num_episodes": EPISODES, "checkpoint_freq": 0, "threads": 1, **changed}
    found = []
    for row in train(flags):
        value = row[COLUMNS["evaluation_return"]]
        if value:
            found.append((float(row[COLUMNS["env_steps"]]), float(value)))
    return found


def theirs(setup: Setup, trainer: str, seed: int) -> list[tuple[float, float]]:
    """Train Stable-Baselines3's algorithm; return env steps and evaluation returns."""
    import gymnasium as gym
    import stable_baselines3
    import torch
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    env = Monitor(gym.make(ENV))
    arena = Monitor(gym.make(ENV))
    arguments: dict[str, Any] = {"learning_starts": setup.starts, "batch_size": setup.batch, "learning_rate": 3e-4}
    arguments |= {"train_freq": 1, "gradient_steps": 1, "policy_kwargs": {"net_arch": [setup.width, setup.width]}}
    if trainer == "TD3":
        size = env.action_space.shape
        arguments["action_noise"] = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
    model = getattr(stable_baselines3, trainer)("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    arena.reset(seed=10_000 + seed)
    found = []
    for steps in range(setup.every, setup.steps + 1, setup.every):
        model.learn(setup.every, reset_num_timesteps=False)
        found.append((float(steps), float(evaluate_policy(model, arena, EPISODES)[0])))
    return found


def place(setup: Setup, program: str, trainer: str, seed: int) -> Path:
    """Return the path of a run's evaluations."""
    return setup.data / f"{trainer}_{program}_s{seed}.csv"


def run(setup: Setup, program: str, trainer: str, seed: int) -> None:
    """Execute one run and store its evaluations at its end."""
    print(f"{trainer}, {program}, seed {seed}", flush=True)
    rows = (ours if program == PROGRAMS[0] else theirs)(setup, trainer, seed)
    write_rows(place(setup, program, trainer, seed), [("env_steps", "evaluation_return"), *rows])


def read(setup: Setup, program: str, trainer: str) -> dict[int, np.ndarray]:
    """Return the evaluations by seed, each ``(n, 2)``: env steps and return."""
    paths = sorted(setup.data.glob(f"{trainer}_{program}_s*.csv"))
    return {int(path.stem.rsplit("_s", 1)[1]): np.loadtxt(path, delimiter=",", skiprows=1) for path in paths}


def summary(setup: Setup) -> str:
    """Return every seed's returns at several steps, as markdown."""
    rows = []
    shown = list(setup.published) or range(3_000, setup.steps + 1, 3_000)
    for trainer in setup.trainers:
        for program in PROGRAMS:
            curves = list(read(setup, program, trainer).values())
            cells = []
            for steps in shown:
                values: list[float] = []
                for curve in curves:
                    values.extend(curve[curve[:, 0] == steps, 1])
                cells.append(", ".join(f"{value:,.0f}" for value in values))
            rows.append([trainer, program, *cells])
    if setup.published:
        band = [f"{mean:,} ({low:,} to {high:,})" for low, mean, high in setup.published.values()]
        rows.append(["SAC", "published, v4, ten seeds", *band])
    return table(["", "", *(f"{steps:,}" for steps in shown)], rows)


def draw(setup: Setup) -> None:
    """Draw a panel per algorithm (thin lines: individual seeds; thick lines: means) with the published range."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        1, len(setup.trainers), figsize=(5 * len(setup.trainers), 3.8), sharey=True, layout="constrained", squeeze=False
    )
    for panel, trainer in zip(panels[0], setup.trainers, strict=True):
        if trainer == "SAC" and setup.published:
            low, mean, high = zip(*setup.published.values(), strict=True)
            panel.fill_between(list(setup.published), low, high, color="0.9", label="published (v4), ten seeds")
            panel.plot(list(setup.published), mean, color="0.7")
        for program, color in zip(PROGRAMS, ("C0", "C1"), strict=True):
            draw_seeds(panel, list(read(setup, program, trainer).values()), color, program)
        panel.set(title=f"{trainer}, {ENV}", xlabel="env steps", xlim=(0, setup.steps))
        panel.legend(frameon=False, fontsize=8)
    panels[0, 0].set_ylabel("evaluation return")
    setup.figure.parent.mkdir(exist_ok=True)
    figure.savefig(setup.figure, dpi=120)


def main() -> None:
    """Execute missing runs, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--draw", action="store_true", help="only print the table and draw the figure")
    parser.add_argument("--setup", choices=SETUPS, default="parity")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    setup = SETUPS[arguments.setup]
    if not arguments.draw and PROGRAMS[1] in arguments.programs:
        require("stable_baselines3")
    jobs = [] if arguments.draw else itertools.product(arguments.seeds, setup.trainers, arguments.programs)
    for seed, trainer, program in jobs:
        if not place(setup, program, trainer, seed).exists():
            run(setup, program, trainer, seed)
    print(summary(setup))
    draw(setup)
    print(f"figure: {setup.figure}")


if __name__ == "__main__":
    main()
