"""Why SAC returns 2,700 on HalfCheetah at 50,000 steps and the published baseline 4,212: one change at a time.

    python -m benchmarks.learning.sac_baseline [--seeds 0 1 2]   # executes missing runs, prints the table and draws
    python -m benchmarks.learning.sac_baseline --draw            # prints and redraws from benchmarks/data/sac_baseline

Written before the first run:

* The published curve has one evaluation per 16,666 steps, as CrossQ's harness has (adityab/CrossQ, train.py). Its
  script of baselines runs SAC with rates of .001, networks of Flax, 5,000 random steps and one update per step.
* Arms: the SAC of `benchmarks.learning.parity`, and one change each. "harness" has both its rates and initial weights.
* Statistic: mean evaluation return at 45,000 and 50,000 steps; its difference from the baseline, with Welch's interval.
* Decision: a change explains the gap if its interval is above 0 and its mean within the published ten seeds,
  3,463 to 4,879. Otherwise the table is the answer.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.learning.curves import BENCHMARKS, draw_seeds
from benchmarks.learning.parity import PARITY, PUBLISHED, ours
from benchmarks.measure import table, write_rows

RATES = {"actor_lr": 1e-3, "critic_lr": 1e-3, "alpha_lr": 1e-3}
LECUN = "benchmarks.learning.lecun_sac:LeCunSAC"
ARMS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "learning rates .001": RATES,
    "initial weights of Flax": {"trainer": LECUN},
    "harness": {**RATES, "trainer": LECUN},
    "two updates per step": {"updates_per_step": 2},
    "1,000 random steps": {"learning_starts": 1_000},
    "HalfCheetah-v4": {"env": "HalfCheetah-v4"},
}
"""Flags of each arm that differ from the baseline."""
DATA = BENCHMARKS / "data" / "sac_baseline"
FIGURE = BENCHMARKS / "figures" / "sac_baseline.png"
LAST = 2
"""Number of last evaluations whose mean is the value of a run."""


def place(arm: str, seed: int) -> Path:
    """Return the path of a run's evaluations."""
    name = arm.replace(" ", "-").replace(",", "").replace(".", "")
    return DATA / f"{name}_s{seed}.csv"


def run(arm: str, seed: int) -> None:
    """Execute one run and store its evaluations at its end."""
    print(f"{arm}, seed {seed}", flush=True)
    rows = ours(PARITY, "SAC", seed, **ARMS[arm])
    write_rows(place(arm, seed), [("env_steps", "evaluation_return"), *rows])


def curves(arm: str) -> list[np.ndarray]:
    """Return the evaluations of each seed ``(n, 2)``: env steps and return."""
    paths = sorted(DATA.glob(place(arm, 0).name.replace("_s0", "_s*")))
    return [np.loadtxt(path, delimiter=",", skiprows=1) for path in paths]


def summary() -> str:
    """Return the values of all seeds, their means and differences, as markdown."""
    rows = []
    reference = [curve[-LAST:, 1].mean() for curve in curves("baseline")]
    for arm in ARMS:
        values = [curve[-LAST:, 1].mean() for curve in curves(arm)]
        if not values:
            continue
        cells = [arm, ", ".join(f"{value:,.0f}" for value in values), f"{np.mean(values):,.0f}"]
        difference = ""
        if arm != "baseline" and min(len(values), len(reference)) > 1:
            low, high = stats.ttest_ind(values, reference, equal_var=False).confidence_interval()
            difference = f"{np.mean(values) - np.mean(reference):,.0f} ({low:,.0f} to {high:,.0f})"
        rows.append([*cells, difference])
    headings = ["change", "return at 45,000 and 50,000 steps, by seed", "mean", "difference from the baseline (95 %)"]
    return table(headings, rows)


def draw() -> None:
    """Draw the arms (thin lines: individual seeds; thick lines: means) and the published range."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7, 4.2), layout="constrained")
    low, mean, high = zip(*PUBLISHED.values(), strict=True)
    panel.fill_between(list(PUBLISHED), low, high, color="0.9", label="published (v4), ten seeds")
    panel.plot(list(PUBLISHED), mean, color="0.6")
    for number, arm in enumerate(ARMS):
        style = "--" if arm == "HalfCheetah-v4" else "-"  # dashed, because it coincides with the baseline
        draw_seeds(panel, curves(arm), f"C{number}", arm, style)
    panel.set(title="SAC, HalfCheetah", xlabel="env steps", ylabel="evaluation return", xlim=(0, PARITY.steps))
    panel.legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    """Execute missing runs, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--draw", action="store_true", help="only print the table and draw the figure")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in arguments.seeds if not arguments.draw else []:
        for arm in ARMS:
            if not place(arm, seed).exists():
                run(arm, seed)
    print(summary())
    draw()
    print(f"figure: {FIGURE}")


if __name__ == "__main__":
    main()
