"""Read the results of one run from ``result.json`` or ``progress.csv``, also compressed."""

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
"""Names of a quantity in RLlib's results, the newest first."""
LARGEST = 1e100
"""Larger numbers count as damaged. Squares and sums of smaller numbers are finite."""
MOST_OF_A_LINE = 1 << 24
"""Maximum number of characters of a result. A small compressed file can hold a line that exceeds memory."""


@dataclass(frozen=True)
class Rows:
    """The results of a run.

    Attributes:
        rows: One mapping per result; names of nested values are joined by ``/``.
        note: A problem of the file, "" if there is none.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""


def read_rows(folder: Path) -> Rows:
    """Return the results in a run's folder, which may be empty.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file does not contain results.
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
    """Read one JSON object per line. The last line may be incomplete."""
    found = []
    broken = 0
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
    if not broken:
        return Rows(found)
    return Rows(found, f"{broken} unreadable line{'s' * (broken > 1)}")


def _flat(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def number(value: Any) -> float:
    """Return a value as a number, NaN if it is not a number below `LARGEST`."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if abs(found) < LARGEST else math.nan


def named(row: Mapping[str, Any], name: str) -> float:
    """Return the first finite number in the columns of `NAMES` for `name`, NaN if there is none."""
    for column in NAMES[name]:
        found = number(row.get(column))
        if not math.isnan(found):
            return found
    return math.nan


def kept_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with increasing env steps. Steps that were repeated after a restart count once, the last time."""
    kept: list[dict[str, Any]] = []
    least = math.inf
    for row in reversed(rows):
        steps = named(row, "env_steps")
        if steps < least:
            kept.append(row)
            least = steps
    return kept[::-1]


def elapsed_seconds(rows: list[dict[str, Any]]) -> list[float]:
    """Return the non-decreasing wall-clock seconds of a run at each row, NaN if a row has no time.

    Runs of earlier versions restarted their clock when they were resumed. A row belongs to a restarted clock if its
    time is below that of the previous row, or if its process began after the previous row and both clocks agree.

    Args:
        rows: Result of `kept_rows`.
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
    """Return env steps and evaluation returns of a run, or returns in training if it was never evaluated."""
    rows = kept_rows(read_rows(folder).rows)
    for name in ("evaluation", "training"):
        found = []
        for row in rows:
            value = named(row, name)
            if not math.isnan(value):
                found.append((int(named(row, "env_steps")), value))
        if found:
            return found
    return []
