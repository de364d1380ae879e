"""Read the results of one run from ``result.json``, also compressed."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILES = ("result.json", "result.json.gz")
NAMES = {
    "env_steps": ("num_env_steps_sampled_lifetime", "env_runners/num_env_steps_sampled_lifetime", "timesteps_total"),
    "seconds": ("time_total_s",),
    "updates": ("learners/default_policy/num_updates_lifetime",),
    "training": ("env_runners/episode_return_mean",),
    "evaluation": ("evaluation/env_runners/episode_return_mean",),
    "success": ("evaluation/env_runners/success_rate",),
    "timestamp": ("timestamp",),
}
"""Names of each quantity in results; the first name with a number is used."""
LARGEST = 1e100
"""Larger numbers count as damaged. Squares and sums of smaller numbers are finite."""


def read_rows(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the results in a run's folder, which may be empty, and a problem of the file or "".

    Each result is a mapping; names of nested values are joined by ``/``. The last line of the file may be incomplete.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file does not contain results.
    """
    found = []
    broken = 0
    for line in _lines(folder):
        try:
            row = json.loads(line)
        except ValueError:
            broken += 1
            continue
        if not isinstance(row, dict):
            raise ValueError(f"{FILES[0]} holds a {type(row).__name__}; expected results")
        row.pop("config", None)
        found.append(dict(flat(row)))
    if broken and not found:
        raise ValueError(f"{FILES[0]} holds no readable result")
    return found, f"unreadable lines: {broken}" * bool(broken)


def _lines(folder: Path) -> Iterator[str]:
    for name in FILES:
        path = folder / name
        if path.exists() and path.stat().st_size:
            opener: Any = {".gz": gzip.open}.get(path.suffix, open)
            with opener(path, "rt") as file:
                yield from file
            return


def flat(row: Mapping[str, Any], above: str = "", separator: str = "/") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings, with their names joined by a separator."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}{separator}", separator)
        else:
            yield f"{above}{name}", value


def number(value: Any) -> float:
    """Return a value as a number, NaN if it is not a number below `LARGEST`."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if abs(found) < LARGEST else math.nan


def read_named(row: Mapping[str, Any], name: str) -> float:
    """Return the first finite number in the columns of `NAMES` for `name`, NaN if there is none."""
    for column in NAMES[name]:
        found = number(row.get(column))
        if not math.isnan(found):
            return found
    return math.nan


def mean_return(result: Mapping[str, Any]) -> float:
    """Return the mean return of the episodes in a result, or in its entry ``evaluation``; NaN without episodes."""
    return float(result.get("env_runners", {}).get("episode_return_mean", math.nan))


def drop_repeated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with increasing env steps. For steps that were repeated after a restart, the last row is kept."""
    kept: list[dict[str, Any]] = []
    least = math.inf
    for row in reversed(rows):
        steps = read_named(row, "env_steps")
        if steps < least:
            kept.append(row)
            least = steps
    return kept[::-1]


def values(folder: Path, name: str) -> list[tuple[int, float]]:
    """Return env steps and the values of a quantity of `NAMES` that a run has reported."""
    found = []
    for row in drop_repeated(read_rows(folder)[0]):
        value = read_named(row, name)
        if not math.isnan(value):
            found.append((int(read_named(row, "env_steps")), value))
    return found


def curve(folder: Path) -> list[tuple[int, float]]:
    """Return env steps and evaluation returns of a run, or returns in training if it was never evaluated."""
    return values(folder, "evaluation") or values(folder, "training")
