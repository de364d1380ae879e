"""Tables of a study, including every seed: ``python -m benchmarks.studies.study_table FOLDER``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pandas as pd

from benchmarks.measure import existing, table
from interreplay.experiments.report.reading import read_runs
from interreplay.experiments.report.sections import Scores, build
from interreplay.experiments.report.tables import aggregate_table, efficiency_table, improvement_table, runs_table


def number(value: float) -> str:
    """Return a number with three digits, from 100 on as an integer; "–" if it is missing."""
    if pd.isna(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def between(row: pd.Series, name: str) -> str:
    """Return a value and its interval, "–" if the value is missing."""
    if pd.isna(row.get(name)):
        return "–"
    return f"{number(row[name])} ({number(row[f'{name}_low'])} to {number(row[f'{name}_high'])})"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.study_table", description=__doc__)
    parser.add_argument("folder", type=existing)
    parser.add_argument("--baseline", default="Uniform", help="method that others are compared with, if it was run")
    args = parser.parse_args(argv)
    runs = read_runs([args.folder])
    sections = build(runs, baseline=args.baseline, measure="auto", count="finished", scores=Scores())
    print(by_task(runs_table(runs, sections), efficiency_table(sections), args.baseline))
    improved = improvement_table(sections)
    if not improved.empty:
        print("\n" + over_tasks(aggregate_table(sections), improved, args.baseline))


def by_task(each: pd.DataFrame, found: pd.DataFrame, baseline: str) -> str:
    """Return final returns of every seed, their means and areas, a row per task and method."""
    rows = []
    for _, row in found.iterrows():
        key = (each["algorithm"] == row["algorithm"]) & (each["env"] == row["env"]) & (each["method"] == row["method"])
        seeds = each[key & each["counted"]].sort_values("seed")
        finals = ", ".join(number(value) for value in seeds["final"])
        ratio = "1" if row["method"] == baseline else between(row, "auc_ratio")
        cells = [f"{row['algorithm']} {row['method']}", finals, between(row, "final"), between(row, "auc"), ratio]
        rows.append([row["env"], *cells])
    names = ["task", "method", "final return of every seed", "mean", "area under the curve", f"× {baseline}"]
    return table(names, rows)


def over_tasks(found: pd.DataFrame, improved: pd.DataFrame, baseline: str) -> str:
    """Return normalized scores over all tasks, compared with the baseline."""
    improved = improved.set_index(["algorithm", "method", "measure"])
    rows = []
    for _, row in found.iterrows():
        key = (row["algorithm"], row["method"], row["measure"])
        better = improved.loc[key] if key in improved.index else None
        chance = "–"
        if better is not None:
            ends = f"{better['probability_low']:.2f} to {better['probability_high']:.2f}"
            chance = f"{better['probability']:.2f} ({ends})"
        ratio = "1" if row["method"] == baseline else between(row, "ratio")
        rows.append([f"{key[0]} {key[1]}", row["measure"], str(row["runs"]), between(row, "iqm"), ratio, chance])
    names = [
        "all tasks",
        "of",
        "runs",
        "normalized IQM",
        f"× {baseline}",
        f"probability of improvement over {baseline}",
    ]
    return table(names, rows)


if __name__ == "__main__":
    main()
