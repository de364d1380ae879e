"""The base learners beside Stable-Baselines3's: SAC and TD3 with uniform replay on HalfCheetah-v5, 50,000 steps.

    python -m benchmarks.parity                  # runs what is missing, one after the other, then redraws
    python -m benchmarks.parity --draw           # redraws from benchmarks/data/parity

Both get the same networks (2 x 256), batches (256), learning rates (3e-4), 5,000 random steps and one update per step,
and are evaluated alike: 5 episodes of the deterministic policy every 5,000 steps. An interrupted run is made anew.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import table

HERE = Path(__file__).parent
DATA, FIGURE = HERE / "data" / "parity", HERE / "figures" / "parity.png"
ENV, STEPS, EVERY, EPISODES, STARTS = "HalfCheetah-v5", 50_000, 5_000, 5, 5_000
PROGRAMS, TRAINERS = ("interreplay", "Stable-Baselines3"), ("SAC", "TD3")
PUBLISHED = {20_000: (532, 941, 1_491), 25_000: (696, 1_533, 2_092), 30_000: (861, 2_124, 2_693)}
PUBLISHED |= {40_000: (1_968, 3_196, 3_808), 50_000: (3_463, 4_212, 4_879)}
"""Least, mean and most of ten seeds of SAC on HalfCheetah-v4: the baselines stored with SimbaV2 (arXiv:2502.15280)."""


def ours(trainer: str, seed: int) -> list[tuple[float, float]]:
    """Train as a user would; return env steps and evaluation returns."""
    flags = {"trainer": trainer, "env": ENV, "seed": seed, "total_env_steps": STEPS, "preset": "none"}
    flags |= {"learning_starts": STARTS, "steps_per_iteration": EVERY, "evaluation_interval": 1}
    flags |= {"evaluation_num_episodes": EPISODES, "checkpoint_freq": 0, "threads": 1}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "custom_training.py", *words, "--quiet", "--output_dir", folder]
        subprocess.run(line, cwd=HERE.parent, check=True, stdout=subprocess.DEVNULL)
        (progress,) = Path(folder).glob("*/progress.csv")
        with progress.open(newline="") as file:
            rows = list(csv.DictReader(file))
    names = "num_env_steps_sampled_lifetime", "evaluation/env_runners/episode_return_mean"
    return [(float(row[names[0]]), float(row[names[1]])) for row in rows if row[names[1]]]


def theirs(trainer: str, seed: int) -> list[tuple[float, float]]:
    """Train Stable-Baselines3's algorithm; return env steps and evaluation returns."""
    import gymnasium as gym
    import stable_baselines3
    import torch
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    env, arena = Monitor(gym.make(ENV)), Monitor(gym.make(ENV))
    arguments: dict[str, Any] = {"learning_starts": STARTS, "batch_size": 256, "learning_rate": 3e-4}
    arguments |= {"train_freq": 1, "gradient_steps": 1, "policy_kwargs": {"net_arch": [256, 256]}}
    if trainer == "TD3":
        size = env.action_space.shape
        arguments["action_noise"] = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
    model = getattr(stable_baselines3, trainer)("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    arena.reset(seed=10_000 + seed)
    found = []
    for steps in range(EVERY, STEPS + 1, EVERY):
        model.learn(EVERY, reset_num_timesteps=False)
        found.append((float(steps), float(evaluate_policy(model, arena, EPISODES)[0])))
    return found


def place(program: str, trainer: str, seed: int) -> Path:
    """Return where a run's evaluations are kept."""
    return DATA / f"{trainer}_{program}_s{seed}.csv"


def run(program: str, trainer: str, seed: int) -> None:
    """Make one run and keep its evaluations, all at once."""
    print(f"{trainer}, {program}, seed {seed}", flush=True)
    rows = (ours if program == PROGRAMS[0] else theirs)(trainer, seed)
    DATA.mkdir(parents=True, exist_ok=True)
    path = place(program, trainer, seed)
    with path.with_suffix(".part").open("w", newline="") as file:
        csv.writer(file).writerows([("env_steps", "evaluation_return"), *rows])
    path.with_suffix(".part").rename(path)


def read(program: str, trainer: str) -> dict[int, np.ndarray]:
    """Return the evaluations by seed, each ``(n, 2)``: env steps and return."""
    paths = sorted(DATA.glob(f"{trainer}_{program}_s*.csv"))
    return {int(path.stem.rsplit("_s", 1)[1]): np.loadtxt(path, delimiter=",", skiprows=1) for path in paths}


def summary() -> str:
    """Return every seed's returns at several steps, as markdown."""
    rows = []
    for trainer in TRAINERS:
        for program in PROGRAMS:
            curves = list(read(program, trainer).values())
            at = {steps: [c[c[:, 0] == steps, 1][0] for c in curves if (c[:, 0] == steps).any()] for steps in PUBLISHED}
            cells = [", ".join(f"{v:,.0f}" for v in values) for values in at.values()]
            rows.append([trainer, program, *cells])
    band = [f"{mean:,} ({low:,} to {high:,})" for low, mean, high in PUBLISHED.values()]
    return table(["", "", *(f"{steps:,}" for steps in PUBLISHED)], [*rows, ["SAC", "published, v4, ten seeds", *band]])


def draw() -> None:
    """Draw a panel per algorithm: every seed thin, means thick, the published band behind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(TRAINERS), figsize=(10, 3.8), sharey=True, layout="constrained")
    for panel, trainer in zip(panels, TRAINERS, strict=True):
        if trainer == "SAC":
            low, mean, high = zip(*PUBLISHED.values(), strict=True)
            panel.fill_between(list(PUBLISHED), low, high, color="0.9", label="published (v4), ten seeds")
            panel.plot(list(PUBLISHED), mean, color="0.7")
        for program, color in zip(PROGRAMS, ("C0", "C1"), strict=True):
            curves = list(read(program, trainer).values())
            for curve in curves:
                panel.plot(curve[:, 0], curve[:, 1], color=color, lw=0.8, alpha=0.6)
            if curves:
                mean = np.mean([curve[:, 1] for curve in curves], axis=0)
                panel.plot(curves[0][:, 0], mean, color=color, lw=2.2, label=f"{program} ({len(curves)} seeds)")
        panel.set(title=f"{trainer}, {ENV}", xlabel="env steps", xlim=(0, STEPS))
        panel.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("evaluation return")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    """Run what is missing, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--draw", action="store_true", help="no runs, only the table and the figure")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = [(p, t, s) for s in arguments.seeds for t in TRAINERS for p in PROGRAMS]
    for job in wanted if not arguments.draw else []:
        if not place(*job).exists():
            run(*job)
    print(summary())
    draw()
    print(f"figure: {FIGURE}")


if __name__ == "__main__":
    main()
