"""Draw the README's figure: ``python -m benchmarks.studies.headline benchmarks/data/sac_stable_critic``.

The folder holds the runs of ``studies/sac_stable_critic.yaml`` as `benchmarks.keep_study` keeps them. The folder
``sac_nmer_ratio`` next to it holds the returns of random actions.
"""

from __future__ import annotations

import argparse
from math import exp
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.studies.arm_pairs import contrast
from benchmarks.studies.ratio_report import random_returns, tasks_of, whole_seeds
from benchmarks.studies.ratio_statistics import bootstrapped, effect
from benchmarks.studies.study_curves import draw_curves, read

COLORS = {"Uniform-LN": "#2f7ed8", "NMER-LN": "#c65d21"}
LABELS = {"Uniform-LN": "uniform replay", "NMER-LN": "NMER"}
TASK = "HalfCheetah-v5"
STEPS = 12_000
PUBLISHED = {"DroQ": 2988, "REDQ": 2424, "CrossQ": 1915, "SAC": 307}
"""Means over ten seeds at 12,000 steps of HalfCheetah-v4, from github.com/DAVIAN-Robotics/SimbaV2, results/baseline.
CrossQ was evaluated there; the others are interpolated between their evaluations at 0 and at 16,666 steps."""


def draw_learning_curves(axis: Axes, curves: pd.DataFrame) -> None:
    """Draw the two arms on HalfCheetah, and the published returns of other methods at the last step."""
    draw_curves(axis, curves[curves["env"] == TASK], COLORS)
    for line in axis.get_lines():
        label = str(line.get_label())
        if label in LABELS:
            line.set_label(f"SAC, {LABELS[label]}, 20 updates per step")
    for name, mean in PUBLISHED.items():
        axis.plot(STEPS, mean, "s", ms=6, color="0.3")
        axis.text(STEPS + 250, mean, f"{name} {mean:,}", va="center", fontsize=10, color="0.3")
    axis.text(
        STEPS + 250,
        4500,
        "published means at\n12,000 steps (CrossQ)\nor interpolated to it",
        fontsize=10,
        color="0.3",
        va="bottom",
    )
    axis.set_xlim(1000, STEPS + 3000)
    axis.set_xticks(range(2000, STEPS + 1, 2000), [f"{steps:,}" for steps in range(2000, STEPS + 1, 2000)])
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_title("HalfCheetah: evaluation return", loc="left", fontsize=12)
    axis.set_xlabel("environment steps")
    axis.legend(frameon=False, fontsize=10, loc="upper left")


def draw_effects(axis: Axes, curves: pd.DataFrame, random: dict[str, float]) -> None:
    """Draw the ratio of NMER's area to uniform replay's by task, and over all tasks."""
    tasks = tasks_of(curves, random)
    parts = {"all three tasks": list(tasks.values())}
    for env in (TASK, "dm_control/cheetah-run-v0", "dm_control/cartpole-swingup-v0"):
        name = env.removeprefix("dm_control/").rpartition("-")[0]
        parts[name] = [tasks[env]]
    nmer_over_uniform = contrast("NMER-LN", "Uniform-LN")
    for place, (name, part) in enumerate(reversed(parts.items())):
        ratio = exp(effect(part, nmer_over_uniform))
        low, high = bootstrapped(part, lambda drawn: effect(drawn, nmer_over_uniform))
        color = "#c65d21" if name == "all three tasks" else "0.4"
        axis.plot([exp(low), exp(high)], [place, place], color=color, lw=3)
        axis.plot(ratio, place, "o", ms=9, color=color)
        axis.text(ratio * 1.03, place + 0.17, f"{ratio:.1f}x", ha="center", fontsize=11, color=color)
    axis.axvline(1, color="0.3", lw=1)
    axis.text(1.04, 3.42, "uniform replay", fontsize=10, color="0.3")
    axis.set_xscale("log")
    axis.set_xticks([1, 2, 4, 8], ["1x", "2x", "4x", "8x"])
    axis.minorticks_off()
    axis.set_ylim(-0.4, 3.6)
    axis.set_yticks(range(len(parts)), list(parts)[::-1], fontsize=11)
    axis.set_title("Area under the curve, NMER / uniform", loc="left", fontsize=12)
    axis.set_xlabel("ratio, 95 % confidence interval")
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.headline", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the study's runs")
    parser.add_argument("--figure", type=Path, default=Path("benchmarks/figures/headline.png"), help="file to write")
    args = parser.parse_args()
    curves = read(args.folder)
    curves = whole_seeds(curves[curves["arm"].isin(COLORS)])
    plt.switch_backend("Agg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.6, 4.4), width_ratios=[1.55, 1], layout="constrained")
    draw_learning_curves(left, curves)
    draw_effects(right, curves, random_returns(args.folder.parent / "sac_nmer_ratio"))
    figure.savefig(args.figure, dpi=130)


if __name__ == "__main__":
    main()
