"""Results of a study: a row per run, and means with confidence intervals over seeds."""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from interreplay.experiments.process.progress import shown
from interreplay.experiments.studies.study import PlannedRun
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.experiments.studies.trial_folder import FINISHED, STATUS, write_whole
from interreplay.runs.results.intervals import interval, mean
from interreplay.runs.results.reader import curve

RUNS = "runs.csv"
TABLE = "table.csv"
WIDTH = 100
"""Maximum number of characters in a line of the closing tables."""
RUN_COLUMNS = (
    "number",
    "name",
    "trainer",
    "env",
    "buffer",
    "seed",
    "state",
    "env_steps",
    "final_return",
    "mean_return",
    "best_return",
    "seconds",
    "starts",
    "failures",
    "last_failure",
)
TABLE_COLUMNS = (
    "env",
    "trainer",
    "buffer",
    "n",
    "final_return",
    "final_low",
    "final_high",
    "mean_return",
    "mean_low",
    "mean_high",
)
Row = dict[str, Any]


def rows_of(folder: StudyFolder, runs: Sequence[PlannedRun]) -> list[Row]:
    """Return a row per run with `RUN_COLUMNS` and its drawn values. The mean return is over the whole curve."""
    rows = []
    for number, run in enumerate(runs):
        trial = folder.trial(run)
        status = trial.status()
        returns = [value for _, value in curve(trial.path)] or [math.nan]
        row = {
            "number": number,
            "name": run.name,
            "trainer": run.trainer,
            "env": run.env,
            "buffer": run.label,
            "seed": run.seed,
            "final_return": returns[-1],
            "mean_return": float(np.mean(returns)),
            "best_return": max(returns),
            "failures": len(status["failures"]),
            "last_failure": (status["failures"] or [""])[-1],
        }
        for name in ("state", "env_steps", "seconds", "starts"):
            row[name] = status[name]
        rows.append(row | run.sampled)
    return rows


def groups_of(rows: Iterable[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Return the rows of each environment, trainer and buffer."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["env"], row["trainer"], row["buffer"]].append(row)
    return groups


def table_of(rows: Iterable[Row]) -> list[Row]:
    """Return final and mean returns of each environment, trainer and buffer over the seeds of finished runs."""
    table = []
    for (env, trainer, buffer), members in groups_of(rows).items():
        done = [row for row in members if row["state"] == FINISHED and not math.isnan(row["final_return"])]
        line: Row = {"env": env, "trainer": trainer, "buffer": buffer, "n": len(done)}
        for name in ("final", "mean"):
            values = np.array([row[f"{name}_return"] for row in done])
            line[f"{name}_return"] = float(values.mean()) if done else math.nan
            low, high = interval(mean, [values]) if done else (math.nan, math.nan)
            line[f"{name}_low"] = low
            line[f"{name}_high"] = high
        table.append(line)
    return sorted(table, key=lambda line: (line["env"], line["trainer"]))


def write(folder: StudyFolder, runs: Sequence[PlannedRun]) -> tuple[list[Row], list[Row]]:
    """Write ``runs.csv`` and ``table.csv``, and return their rows."""
    rows = rows_of(folder, runs)
    table = table_of(rows)
    sampled = sorted(set().union(*(run.sampled for run in runs)))
    write_whole(folder.path / RUNS, as_csv(rows, [*RUN_COLUMNS, *sampled]))
    write_whole(folder.path / TABLE, as_csv(table, TABLE_COLUMNS))
    folder.publish(RUNS, TABLE, STATUS)
    return rows, table


def as_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Return rows as the text of a CSV file. NaN becomes an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for row in rows:
        missing = [key for key, value in row.items() if isinstance(value, float) and math.isnan(value)]
        writer.writerow(row | dict.fromkeys(missing, ""))
    return text.getvalue()


def as_text(table: Sequence[Row]) -> str:
    """Return the table for a terminal or a log."""
    lines = [("environment", "trainer", "buffer", "n", "final return", "mean return")]
    for row in table:
        returns = []
        for name in ("final", "mean"):
            text = shown(row[f"{name}_return"])
            if not math.isnan(row[f"{name}_low"]):
                text += f" [{row[f'{name}_low']:,.1f}, {row[f'{name}_high']:,.1f}]"
            returns.append(text)
        lines.append((row["env"], row["trainer"], row["buffer"], str(row["n"]), returns[0], returns[1]))
    return aligned(lines, right={3, 4, 5}, width=WIDTH)


def ranking(rows: Iterable[Row], sampled: Mapping[str, PlannedRun]) -> list[tuple[str, ...]]:
    """Return the draws of a search, the best first: environment, trainer, buffer, values, seeds, final return, steps.

    Args:
        rows: Result of `rows_of`.
        sampled: The runs by name.
    """
    lines = []
    for (env, trainer, buffer), members in groups_of(rows).items():
        drawn = sampled[members[0]["name"]].sampled
        if not drawn:
            continue
        done = [row["final_return"] for row in members if row["state"] == FINISHED]
        finite = [value for value in done if not math.isnan(value)]
        final = float(np.mean(finite)) if finite else math.nan
        steps = max(row["env_steps"] for row in members)
        values = []
        for key, value in drawn.items():
            values.append(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}")
        rank = (env, trainer, not finite, -final if finite else -steps)
        lines.append((rank, (env, trainer, buffer, ", ".join(values), str(len(done)), shown(final), f"{steps:,}")))
    return [line for _, line in sorted(lines)]


def as_command(run: PlannedRun) -> str:
    """Return a command line that trains with the settings of a run."""
    words = ["python", "custom_training.py"]
    for name, value in run.flags.items():
        if name == "buffer_args":
            words += [f"--buffer_arg={key}={item}" for key, item in value.items()]
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            words += [f"--{name}={item}" for item in value]
        elif isinstance(value, list):
            words.append(f"--{name}={','.join(map(str, value))}")
        else:
            words.append(f"--{name}={value}")
    return shlex.join(words)


def aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = (), width: int = 10_000) -> str:
    """Return lines of words as aligned columns.

    Args:
        lines: Words of each line, the same number in all.
        right: Columns that are aligned at the right.
        width: Maximum number of characters in a line. Long words continue on the next line.
    """
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number in range(len(lines[0])):
        table.add_column(justify="right" if number in right else "left", overflow="fold")
    natural = sum(max(map(len, column)) + 2 for column in zip(*lines, strict=True)) - 2
    for line in lines:
        words = list(line)
        for number, word in enumerate(line):
            if natural > width and number not in right:
                words[number] = re.sub(r",(?=\S)", ", ", word)  # arguments may then continue on the next line
        table.add_row(*words)
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, markup=False, emoji=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
