"""Results of a study: a row per run, and means with confidence intervals over seeds."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.experiments.flags.values import format_value, read_list
from interreplay.experiments.process.outcome import format_program
from interreplay.experiments.process.progress import format_return
from interreplay.experiments.studies.study import PlannedRun, State, StudyFolder, write_result
from interreplay.runs.results.intervals import interval, mean
from interreplay.runs.results.reader import curve

RUNS = "runs.csv"
TABLE = "table.csv"
WIDTH = 100
"""Maximum number of characters in a line of the closing tables."""
GROUP = ["env", "trainer", "buffer"]


def make_rows(folder: StudyFolder, runs: Sequence[PlannedRun]) -> pd.DataFrame:
    """Return a row per run, with the values that a search drew. The mean return is over the whole curve.

    Runs whose results cannot be read, for example because their first line is still being written, have no returns.
    """
    rows = []
    for number, run in enumerate(runs):
        trial = folder.trial(run)
        status = trial.status()
        try:
            points = curve(trial.path)
        except (OSError, ValueError):
            points = []
        returns = np.array(points or [(0, math.nan)])[:, 1]
        row = {
            "number": number,
            "name": run.name,
            "trainer": run.trainer,
            "env": run.env,
            "buffer": run.label,
            "seed": run.seed,
            "state": status["state"],
            "env_steps": status["env_steps"],
            "final_return": returns[-1],
            "mean_return": returns.mean(),
            "best_return": returns.max(),
            "seconds": status["seconds"],
            "starts": status["starts"],
            "failures": len(status["failures"]),
            "last_failure": "".join(status["failures"][-1:]),
        }
        rows.append(row | run.sampled)
    return pd.DataFrame(rows)


def make_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return final and mean returns of each environment, trainer and buffer over the seeds of finished runs."""
    table = []
    for names, members in rows.groupby(GROUP, sort=False):
        done = members[(members["state"] == State.FINISHED) & members["final_return"].notna()]
        line: dict[str, Any] = dict(zip(GROUP, names, strict=True)) | {"n": len(done)}
        for name in ("final", "mean"):
            values = done[f"{name}_return"].to_numpy()
            line[f"{name}_return"] = done[f"{name}_return"].mean()
            line[f"{name}_low"], line[f"{name}_high"] = interval(mean, [values])
        table.append(line)
    return pd.DataFrame(table).sort_values(["env", "trainer"], kind="stable")


def write(folder: StudyFolder, runs: Sequence[PlannedRun]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write ``runs.csv`` and ``table.csv``, and return their rows."""
    rows = make_rows(folder, runs)
    table = make_table(rows)
    write_result(folder.path / RUNS, rows.to_csv(index=False))
    write_result(folder.path / TABLE, table.to_csv(index=False))
    return rows, table


def as_text(table: pd.DataFrame) -> str:
    """Return the table for a terminal or a log."""
    lines = [("environment", "trainer", "buffer", "n", "final return", "mean return")]
    for row in table.to_dict("records"):
        returns = []
        for name in ("final", "mean"):
            text = format_return(row[f"{name}_return"])
            if not math.isnan(row[f"{name}_low"]):
                text += f" [{row[f'{name}_low']:,.1f}, {row[f'{name}_high']:,.1f}]"
            returns.append(text)
        lines.append((row["env"], row["trainer"], row["buffer"], str(row["n"]), returns[0], returns[1]))
    return align(lines, right={3, 4, 5}, width=WIDTH)


def ranking(rows: pd.DataFrame, runs: Iterable[PlannedRun]) -> list[tuple[str, ...]]:
    """Return the draws of a search, best first: environment, trainer, buffer, values, seeds, final return, steps."""
    drawn = {run.name: run.sampled for run in runs if run.sampled}
    lines = []
    for (env, trainer, buffer), members in rows[rows["name"].isin(drawn)].groupby(GROUP, sort=False):
        done = members[members["state"] == State.FINISHED]
        final = done["final_return"].mean()
        steps = members["env_steps"].max()
        rank = (env, trainer, math.isnan(final), -np.nan_to_num(final), -steps)
        values = []
        for key, value in drawn[members["name"].iloc[0]].items():
            values.append(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}")
        lines.append(
            (rank, (env, trainer, buffer, ", ".join(values), str(len(done)), format_return(final), f"{steps:,}"))
        )
    return [line for _, line in sorted(lines)]


def best_draws(rows: pd.DataFrame, runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Return a run of the best draw of a search in each environment: the highest final return of finished runs."""
    drawn = {run.name: run for run in runs if run.sampled}
    done = rows[rows["name"].isin(drawn) & (rows["state"] == State.FINISHED) & rows["final_return"].notna()]
    best = []
    for _, members in done.groupby("env"):
        finals = members.groupby(["trainer", "buffer"], sort=False)["final_return"].mean()
        trainer, buffer = finals.idxmax()
        found = members[(members["trainer"] == trainer) & (members["buffer"] == buffer)]
        best.append(drawn[found["name"].iloc[0]])
    return best


def as_command(run: PlannedRun) -> str:
    """Return a command line that trains with the settings of a run."""
    words = []
    for name, value in run.flags.items():
        if isinstance(value, Mapping) and name == "buffer_args":
            words += [f"--buffer_arg={key}={item}" for key, item in value.items()]
        elif name in FLAGS and FLAGS[name].repeat:
            words += [f"--{name}={item}" for item in read_list(value)]
        else:
            words.append(f"--{name}={format_value(value)}")
    return f"{format_program('train')} {shlex.join(words)}"


def align(lines: Sequence[Sequence[str]], right: Iterable[int] = (), width: int = 10_000) -> str:
    """Return lines of as many words each as aligned columns, those in `right` at the right.

    Lines have at most `width` characters; long words continue on the next line.
    """
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number in range(len(lines[0])):
        table.add_column(justify="right" if number in right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, markup=False, emoji=False, highlight=False).print(table)
    return "\n".join(map(str.rstrip, text.getvalue().splitlines()))
