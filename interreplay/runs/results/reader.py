"""The rows of one run, from the files that Tune's loggers write: ``result.json``, else ``progress.csv``; also zipped."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

FILES = ("result.json", "result.json.gz", "progress.csv", "progress.csv.gz")
NAMES = {
    "env_steps": (
        "num_env_steps_sampled_lifetime",
        "env_runners/num_env_steps_sampled_lifetime",
        "env_steps",
        "timesteps_total",
        "num_env_steps_sampled",
    ),
    "seconds": ("time_total_s",),
    "updates": ("learners/default_policy/num_updates_lifetime",),
    "training": (
        "env_runners/episode_return_mean",
        "sampler_results/episode_reward_mean",
        "episode_return_mean",
        "episode_reward_mean",
    ),
    "evaluation": (
        "evaluation/env_runners/episode_return_mean",
        "evaluation/sampler_results/episode_reward_mean",
        "evaluation/episode_reward_mean",
    ),
    "success": ("evaluation/env_runners/success_rate",),
    "timestamp": ("timestamp",),
}
"""Under which names RLlib reported a thing, the newest first."""
LARGEST = 1e100
"""Numbers from here on are damage; squares and sums of smaller ones are finite."""
MOST_OF_A_LINE = 1 << 24
"""Characters of a result; a compressed file may hold a line that memory does not."""


@dataclass(frozen=True)
class Rows:
    """What a run reported.

    Attributes:
        rows: One mapping per result; names of nested values are joined by ``/``.
        note: What was wrong with the file, empty where nothing was.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""


def read_rows(folder: Path) -> Rows:
    """Return the results in a run's folder, none where there are none yet.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file holds something else than results.
    """
    for name in FILES:
        path = folder / name
        if path.exists() and path.stat().st_size:
            with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
                found = _json_rows(file, path.name) if "json" in name else Rows(list(csv.DictReader(file)))
            if found.rows or found.note:
                return found
    return Rows()


def _json_rows(file: TextIO, name: str) -> Rows:
    """Read one JSON object per line; the last may be half written."""
    found, broken = [], 0
    for line in iter(lambda: file.readline(MOST_OF_A_LINE), ""):
        if len(line) == MOST_OF_A_LINE:
            raise ValueError(f"{name} holds a line of more than {MOST_OF_A_LINE:,} characters")
        try:
            row = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if not isinstance(row, dict):
            raise ValueError(f"{name} holds {type(row).__name__} where a result was expected")
        row.pop("config", None)
        found.append(dict(_flat(row)))
    if broken and not found:
        raise ValueError(f"{name} holds no result that can be read")
    return Rows(found, f"{broken} unreadable line{'s' * (broken > 1)}" if broken else "")


def _flat(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def number(value: Any) -> float:
    """Return a number below `LARGEST`, NaN for everything else."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if abs(found) < LARGEST else math.nan


def named(row: Mapping[str, Any], name: str) -> float:
    """Return the first finite number among the columns that `NAMES` lists for `name`, NaN where there is none."""
    return next((found for column in NAMES[name] if not math.isnan(found := number(row.get(column)))), math.nan)


def kept_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with rising env steps: what was done again after a restart counts as done the last time."""
    kept: list[dict[str, Any]] = []
    least = math.inf
    for row in reversed(rows):
        steps = named(row, "env_steps")
        if steps < least:
            kept.append(row)
            least = steps
    return kept[::-1]


def elapsed_seconds(rows: list[dict[str, Any]]) -> list[float]:
    """Return the wall-clock seconds of a run at each of its rows, NaN where a row has none; they never fall.

    Runs of earlier versions restarted their clock when they were resumed. A row belongs to a restarted clock where its
    time is below the previous row's, or where its process began after the previous row and both clocks agree.

    Args:
        rows: Results of one run, as `kept_rows` returns them.
    """
    found = []
    before = 0.0
    last = 0.0
    last_iteration = 0.0
    for row in rows:
        seconds = named(row, "seconds")
        if math.isnan(seconds):
            found.append(seconds)
            continue
        iteration = number(row.get("iterations_since_restore"))
        restarted = iteration <= last_iteration and seconds == number(row.get("time_since_restore"))
        if seconds < last or restarted:
            before += last
        last = seconds
        last_iteration = iteration
        found.append(before + seconds)
    return found


def curve(folder: Path) -> list[tuple[int, float]]:
    """Return env steps and evaluation returns of a run; those of training episodes where it was never evaluated."""
    rows = kept_rows(read_rows(folder).rows)
    for name in ("evaluation", "training"):
        points = [(int(named(row, "env_steps")), named(row, name)) for row in rows]
        if found := [(steps, value) for steps, value in points if not math.isnan(value)]:
            return found
    return []
