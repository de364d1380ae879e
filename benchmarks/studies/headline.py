"""Draw the README's figure: ``python -m benchmarks.studies.headline benchmarks/data``.

The folder contains the runs of ``studies/sac_stable_critic.yaml`` and of `benchmarks.studies.ten_tasks`, as
`benchmarks.keep_study` keeps them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.studies.ratio_report import group_by_task, random_returns, whole_seeds
from benchmarks.studies.study_curves import draw_curves, draw_ratios, read
from benchmarks.studies.ten_tasks import ALL, ARM, Ratio, estimate_ratios, read_common_runs

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


def draw_effects(axis: Axes, ratios: dict[str, Ratio]) -> None:
    """Draw the ratio of NMER's area to uniform replay's over all tasks and by task."""
    draw_ratios(axis, ratios, (ALL,))
    for place, (ratio, _, _) in enumerate(reversed(ratios.values())):
        right = axis.get_yaxis_transform()
        axis.text(1.02, place, f"{ratio:.1f}x", va="center", fontsize=10, color="0.3", transform=right)
    axis.set_xscale("log")
    axis.set_xlim(0.15, 30)
    ticks = [0.25, 0.5, 1, 2, 4, 8, 16]
    axis.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axis.minorticks_off()
    axis.tick_params(axis="y", labelsize=10)
    axis.set_title("Ten tasks: ratio of areas, NMER / uniform", loc="left", fontsize=12)
    axis.set_xlabel("ratio, 95 % confidence interval")


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.headline", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of all stored studies")
    parser.add_argument("--figure", type=Path, default=Path("benchmarks/figures/headline.png"), help="file to write")
    args = parser.parse_args()
    curves = read(args.folder / "sac_stable_critic")
    curves = whole_seeds(curves[curves["arm"].isin(COLORS)])
    ten_tasks = args.folder / "nmer_ten_tasks"
    runs, baseline = read_common_runs(ten_tasks)
    ratios = estimate_ratios(group_by_task(runs, random_returns(ten_tasks)), (ARM, baseline))
    plt.switch_backend("Agg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.6, 4.4), width_ratios=[1.55, 1], layout="constrained")
    draw_learning_curves(left, curves)
    draw_effects(right, ratios)
    figure.savefig(args.figure, dpi=130)


if __name__ == "__main__":
    main()
