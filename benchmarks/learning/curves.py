"""Learning curves of whole runs: every seed of every buffer on every environment, one run after the other.

    python -m benchmarks.learning.curves                        # runs, then redraws
    python -m benchmarks.learning.curves --draw                 # redraws from benchmarks/data/learning
    python -m benchmarks.learning.curves --trainer TD3          # with another algorithm than SAC

Each run executes the command that a user would type and prints it first. Its evaluations are stored in
``benchmarks/data/learning/<env>_<buffer>_s<seed>.csv``, one per line; algorithms other than SAC have a subfolder with
their name.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import table, write_rows
from interreplay.experiments.process.machine import format_count

BENCHMARKS = Path(__file__).parents[1]
DATA = BENCHMARKS / "data" / "learning"
FIGURES = BENCHMARKS / "figures"
GOALS = {"InvertedPendulum-v5": 950.0, "Pendulum-v1": -200.0, "FetchReach-v4": 0.9}
STEPS = {"InvertedPendulum-v5": 8_000, "Pendulum-v1": 6_000, "HalfCheetah-v5": 50_000, "FetchReach-v4": 20_000}
OTHER_STEPS = {"InvertedPendulum-v5": 10_000, "Pendulum-v1": 6_000}
"""Env steps of algorithms other than SAC."""
QUANTILE_AND_RENORM_STEPS = {"Pendulum-v1": 8_000}
"""Env steps of TQC and CrossQ."""
BUFFERS = {"FetchReach-v4": ["Uniform", "HER"]}
"""Default buffers of environments with goals; other environments compare Uniform and NMER."""
FLAGS = {
    ("SAC", "HalfCheetah-v5"): {"preset": "none"},
    ("CrossQ", "Pendulum-v1"): {"critic_hiddens": "256,256"},
}
"""Additional flags. HalfCheetah runs with the paper's settings, other environments with the presets that the command
line chooses for them, and CrossQ with critics that are small enough for two cores."""
VARIANTS = {"bfloat16": {"buffer": "Uniform", "matrix_dtype": "bfloat16"}}
"""Further names that `--buffers` accepts, with their flags."""
COLUMNS = {
    "env_steps": "num_env_steps_sampled_lifetime",
    "evaluation_return": "evaluation/env_runners/episode_return_mean",
    "training_return": "env_runners/episode_return_mean",
    "evaluation_success": "evaluation/env_runners/success_rate",
}


def get_data_folder(trainer: str) -> Path:
    """Return the folder of an algorithm's curves."""
    return DATA if trainer == "SAC" else DATA / trainer


def get_env_steps(trainer: str) -> dict[str, int]:
    """Return the env steps of an algorithm's runs by environment."""
    return {"SAC": STEPS, "TQC": QUANTILE_AND_RENORM_STEPS, "CrossQ": QUANTILE_AND_RENORM_STEPS}.get(
        trainer, OTHER_STEPS
    )


def train(flags: Mapping[str, Any]) -> list[dict[str, str]]:
    """Print and execute the command of a run with these flags, and return the rows of its progress.csv."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["custom_training.py"]
        for name, value in flags.items():
            words += [f"--{name}", str(value)]
        words += ["--output_dir", folder, "--quiet"]
        print("python " + " ".join(words), flush=True)
        subprocess.run([sys.executable, *words], cwd=BENCHMARKS.parent, check=True, stdout=subprocess.DEVNULL)
        (progress,) = Path(folder).glob("*/progress.csv")
        with progress.open(newline="") as file:
            return list(csv.DictReader(file))


def run(trainer: str, env: str, buffer: str, seed: int) -> None:
    """Execute one run and store its evaluations."""
    flags = {"trainer": trainer, "env": env, "seed": seed, "total_env_steps": get_env_steps(trainer)[env]}
    flags |= VARIANTS.get(buffer, {"buffer": buffer})
    flags |= {"evaluation_num_episodes": 10, "checkpoint_freq": 0}
    given = train(flags | FLAGS.get((trainer, env), {}))
    columns = {name: column for name, column in COLUMNS.items() if column in given[-1]}
    rows = [list(columns)]
    for row in given:
        if row[COLUMNS["evaluation_return"]]:
            rows.append([row[column] for column in columns.values()])
    write_rows(get_data_folder(trainer) / f"{env}_{buffer}_s{seed}.csv", rows)


def curves(trainer: str, env: str, buffer: str) -> dict[int, np.ndarray]:
    """Return evaluations by seed, each ``(n, 2)``: env steps and return, or success rate if it is reported."""
    found = {}
    for path in sorted(get_data_folder(trainer).glob(f"{env}_{buffer}_s*.csv")):
        with path.open(newline="") as file:
            rows = [
                (float(row["env_steps"]), float(row.get("evaluation_success", row["evaluation_return"])))
                for row in csv.DictReader(file)
            ]
        found[int(path.stem.rsplit("_s", 1)[1])] = np.array(rows)
    return found


def summary(trainer: str, buffers: dict[str, list[str]]) -> str:
    """Return a table of all seeds: the first evaluation that reached the goal, the last one, mean of the last three."""
    lines = []
    for env, compared in buffers.items():
        for buffer in compared:
            for seed, curve in curves(trainer, env, buffer).items():
                goal = GOALS.get(env)
                first = "–"
                if goal is not None:
                    reached = curve[curve[:, 1] >= goal][:, 0]
                    first = f"{reached[0]:,.0f}" if len(reached) else "not reached"
                digits = 2 if env in BUFFERS else 1
                ends = [f"{value:.{digits}f}" for value in (curve[-1, 1], curve[-3:, 1].mean())]
                lines.append([env, buffer, seed, f"{curve[-1, 0]:,.0f}", first, *ends])
    header = [
        "environment",
        "buffer",
        "seed",
        "env steps",
        "goal reached at",
        "last evaluation",
        "mean of the last three",
    ]
    return table(header, lines)


def draw_seeds(panel: Any, found: Sequence[np.ndarray], color: str, label: str, style: str = "-") -> None:
    """Draw the curves of single seeds, each ``(n, 2)``, as thin lines, and their mean as a thick line."""
    for curve in found:
        panel.plot(curve[:, 0], curve[:, 1], color=color, alpha=0.5, linewidth=0.8)
    if found:
        length = min(map(len, found))
        mean = np.mean([curve[:length, 1] for curve in found], axis=0)
        shown = f"{label} ({format_count(len(found), 'seed')})"
        panel.plot(found[0][:length, 0], mean, style, color=color, linewidth=2.2, label=shown)


def draw(trainer: str, buffers: dict[str, list[str]]) -> Path:
    """Draw a panel per environment (thin lines: individual seeds; thick lines: means); return the figure's path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = 5 * len(buffers), 3.6
    figure, panels = plt.subplots(1, len(buffers), figsize=size, squeeze=False, layout="constrained")
    for panel, (env, compared) in zip(panels[0], buffers.items(), strict=True):
        for color, buffer in zip(("C0", "C1", "C2"), compared, strict=False):
            draw_seeds(panel, list(curves(trainer, env, buffer).values()), color, buffer)
        if env in GOALS:
            panel.axhline(GOALS[env], color="0.6", linestyle=":", linewidth=1)
        panel.set(title=env, xlabel="env steps", ylabel="evaluation success" if env in BUFFERS else "evaluation return")
        panel.legend(frameon=False)
    FIGURES.mkdir(exist_ok=True)
    path = FIGURES / ("learning.png" if trainer == "SAC" else f"learning_{trainer}.png")
    figure.savefig(path, dpi=110)
    return path


def main() -> None:
    """Execute the runs, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="SAC")
    parser.add_argument("--envs", nargs="+", help="environments (default: all of the algorithm)")
    parser.add_argument("--buffers", nargs="+", help="buffers instead of the defaults of each environment")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--draw", action="store_true", help="only print the table and draw the figure")
    arguments = parser.parse_args()
    arguments.envs = arguments.envs or list(get_env_steps(arguments.trainer))
    buffers = {env: arguments.buffers or BUFFERS.get(env, ["Uniform", "NMER"]) for env in arguments.envs}
    for env in [] if arguments.draw else arguments.envs:
        for seed in arguments.seeds:
            for buffer in buffers[env]:
                run(arguments.trainer, env, buffer, seed)
    print(summary(arguments.trainer, buffers))
    print(f"figure: {draw(arguments.trainer, buffers)}")


if __name__ == "__main__":
    main()
