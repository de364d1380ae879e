"""What came out of a study: a row per run, and means with intervals over seeds."""

from __future__ import annotations

import csv
import io
import itertools
import math
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from interreplay.experiments.process.progress import shown
from interreplay.experiments.studies.study import PlannedRun
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.experiments.studies.trial_folder import FINISHED, STATUS, write_whole
from interreplay.runs.results.intervals import interval, mean
from interreplay.runs.results.reader import curve

RUNS, TABLE = "runs.csv", "table.csv"
WIDTH = 100
"""Characters of a line of the closing tables."""
NARROW = (24, 14)
"""Characters of columns of text, before and after columns of numbers are made narrower."""
RUN_COLUMNS = (
    *("number", "name", "trainer", "env", "buffer", "seed", "state", "env_steps", "final_return"),
    *("mean_return", "best_return", "seconds", "starts", "failures", "last_failure"),
)
TABLE_COLUMNS = (
    *("env", "trainer", "buffer", "n"),
    *("final_return", "final_low", "final_high", "mean_return", "mean_low", "mean_high"),
)


def rows_of(folder: StudyFolder, runs: Sequence[PlannedRun]) -> list[dict[str, Any]]:
    """Return a row per run with `RUN_COLUMNS` and what a search drew; the mean return is over the whole curve."""
    rows = []
    for number, run in enumerate(runs):
        trial = folder.trial(run)
        status, values = trial.status(), [value for _, value in curve(trial.path)]
        row = {"number": number, "name": run.name, "trainer": run.trainer, "env": run.env, "buffer": run.label}
        row |= {"seed": run.seed, **run.sampled}
        row |= {key: status[key] for key in ("state", "env_steps", "seconds", "starts")}
        row |= {"failures": len(status["failures"]), "last_failure": (status["failures"] or [""])[-1]}
        row |= dict.fromkeys(("final_return", "mean_return", "best_return"), math.nan)
        if values:
            row |= {"final_return": values[-1], "mean_return": float(np.mean(values)), "best_return": max(values)}
        rows.append(row)
    return rows


def table_of(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return final and mean returns of every environment, trainer and buffer, over the seeds of finished runs."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["trainer"], row["buffer"]), []).append(row)
    table = []
    for (env, trainer, buffer), members in groups.items():
        done = [row for row in members if row["state"] == FINISHED and not math.isnan(row["final_return"])]
        line: dict[str, Any] = {"env": env, "trainer": trainer, "buffer": buffer, "n": len(done)}
        for name in ("final", "mean"):
            values = [row[f"{name}_return"] for row in done]
            line[f"{name}_return"] = float(np.mean(values)) if values else math.nan
            line[f"{name}_low"], line[f"{name}_high"] = (
                interval(mean, [np.array(values)]) if values else (math.nan,) * 2
            )
        table.append(line)
    return sorted(table, key=lambda line: (line["env"], line["trainer"]))


def write(folder: StudyFolder, runs: Sequence[PlannedRun]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write ``runs.csv`` and ``table.csv``; return their rows."""
    rows = rows_of(folder, runs)
    table = table_of(rows)
    sampled = sorted({key for run in runs for key in run.sampled})
    write_whole(folder.path / RUNS, as_csv(rows, [*RUN_COLUMNS, *sampled]))
    write_whole(folder.path / TABLE, as_csv(table, TABLE_COLUMNS))
    folder.publish(RUNS, TABLE, STATUS)
    return rows, table


def as_csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as the text of a CSV file; NaN is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for row in rows:
        plain = {key: "" if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
        writer.writerow(plain)
    return text.getvalue()


def as_text(table: Sequence[dict[str, Any]]) -> str:
    """Return the table for a terminal or a log."""
    head = ("environment", "trainer", "buffer", "n", "final return", "mean return")
    lines = [
        (t["env"], t["trainer"], t["buffer"], str(t["n"]), *(_shown(t, name) for name in ("final", "mean")))
        for t in table
    ]
    return aligned([head, *lines], right={3, 4, 5}, width=WIDTH)


def ranking(rows: Iterable[dict[str, Any]], sampled: Mapping[str, PlannedRun]) -> list[tuple[str, ...]]:
    """Return what a search drew, the best first: environment, buffer, values, finished seeds, final return, steps.

    Args:
        rows: As `rows_of` returns them.
        sampled: The runs by name.
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if sampled[row["name"]].sampled:
            groups.setdefault((row["env"], row["trainer"], row["buffer"]), []).append(row)
    lines = []
    for (env, trainer, buffer), members in groups.items():
        done = [row["final_return"] for row in members if row["state"] == FINISHED]
        final = float(np.nanmean(done)) if done and not np.isnan(done).all() else math.nan
        values = ", ".join(f"{key}={_brief(value)}" for key, value in sampled[members[0]["name"]].sampled.items())
        steps = max(row["env_steps"] for row in members)
        rank = (env, trainer, math.isnan(final), -final if not math.isnan(final) else -steps)
        lines.append((rank, (env, trainer, buffer, values, str(len(done)), shown(final), f"{steps:,}")))
    return [line for _, line in sorted(lines)]


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_command(run: PlannedRun) -> str:
    """Return a command line that trains with the settings of a run."""
    words = ["python", "custom_training.py"]
    for name, value in run.flags.items():
        pairs = value.items() if name == "buffer_args" else ()
        words += [f"--buffer_arg={key}={item}" for key, item in pairs]
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            words += [f"--{name}={item}" for item in value]
        elif name != "buffer_args":
            words.append(f"--{name}={','.join(map(str, value)) if isinstance(value, list) else value}")
    return shlex.join(words)


def _shown(line: dict[str, Any], name: str) -> str:
    value, low, high = (line[f"{name}_{part}"] for part in ("return", "low", "high"))
    if math.isnan(value):
        return "-"
    return f"{value:,.1f}" + ("" if math.isnan(low) else f" [{low:,.1f}, {high:,.1f}]")


def aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = (), width: int | None = None) -> str:
    """Return lines of words as aligned columns.

    Args:
        lines: Words of every line, as many in each.
        right: Columns that are aligned at their right.
        width: Characters that a line may have: long words continue on the next line. None for no limit.
    """
    flush = set(right)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    if width is not None:
        _narrow(lines, flush, widths, width)
    found = []
    for line in lines:
        cells = [_wrapped(word, size, i in flush) for i, (word, size) in enumerate(zip(line, widths, strict=True))]
        for row in itertools.zip_longest(*cells, fillvalue=""):
            sized = zip(row, widths, strict=True)
            words = [word.rjust(size) if i in flush else word.ljust(size) for i, (word, size) in enumerate(sized)]
            found.append("  ".join(words).rstrip())
    return "\n".join(found)


def _narrow(lines: Sequence[Sequence[str]], flush: set[int], widths: list[int], width: int) -> None:
    """Make columns narrower until a line fits: columns of text, then of numbers, then of text again."""
    text = {i for i in range(len(widths)) if i not in flush}
    numbers = {i: max(len(part) for line in lines for part in _wrapped(line[i], 1, True)) for i in flush}
    for least in (dict.fromkeys(text, NARROW[0]), numbers, dict.fromkeys(text, NARROW[1])):
        while sum(widths) + 2 * (len(widths) - 1) > width:
            wide = [i for i in least if widths[i] > least[i]]
            if not wide:
                break
            widths[max(wide, key=lambda i: widths[i])] -= 1


def _wrapped(word: str, size: int, number: bool) -> list[str]:
    """Return the lines of a cell: text breaks at spaces and commas, a number before its interval."""
    if len(word) <= size:
        return [word]
    if number:
        return word.replace(" [", "\n[").split("\n")
    return [part.strip() for part in textwrap.wrap(word.replace(",", ", "), size, break_on_hyphens=False)]
