"""What V-trace needs to learn Pong, in a table and a figure: ``python -m benchmarks.pong FOLDER --figure FILE``.

FOLDER has the runs of ``studies/pong.yaml``, as Tune or `benchmarks.keep_study` left them; runs that ended count.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import EngFormatter

from benchmarks.measure import table
from benchmarks.study_curves import draw_curves, each_run, read

COLORS = {
    "Scaled-Fresh": "#9aa5b1",
    "Scaled-Replayed": "#3e4c59",
    "Normalized-Fresh": "#2f7ed8",
    "Normalized-Replayed": "#c65d21",
}
"""By arm, in the order in which they are shown."""
AT = (100_000, 200_000, 300_000, 400_000)
"""Env steps at which returns are shown."""
NEAR = 30_000
"""Env steps before that are averaged over there."""


def at(run: pd.DataFrame, steps: int) -> float:
    """Return the mean of a run's returns up to so many env steps."""
    near = (run["steps"] > steps - NEAR) & (run["steps"] <= steps + 1_000)
    return float(run.loc[near, "value"].mean())


def returns_table(rows: pd.DataFrame) -> str:
    """Return every seed's returns on the way, as markdown."""
    lines = []
    for arm in COLORS:
        runs = each_run(rows[rows["arm"] == arm])
        if runs:
            found = np.array([[at(run, steps) for run in runs] for steps in AT])
            lines.append([arm.replace("-", ", ").lower(), *(", ".join(f"{x:.1f}" for x in one) for one in found)])
    return table(["pixels, unrolls", *(f"{steps:,}" for steps in AT)], lines)


def draw(rows: pd.DataFrame) -> plt.Figure:
    """Return the learning curves."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    draw_curves(axis, rows, COLORS)
    axis.set(ylabel="return in training", ylim=(-21.5, 21.5), title="V-trace on Pong")
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.legend(frameon=False, fontsize=8)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table and write the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pong", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=Path, help="where to draw it")
    args = parser.parse_args(argv)
    rows = read(args.folder, "training")
    print(returns_table(rows))
    if args.figure is not None:
        draw(rows).savefig(args.figure, dpi=150)


if __name__ == "__main__":
    main()
