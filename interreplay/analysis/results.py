"""The rows of one run, from the files that Tune's loggers write: ``result.json``, else ``progress.csv``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# Under which names RLlib reported a thing, the newest first.
NAMES = {
    "env_steps": (
        "num_env_steps_sampled_lifetime",
        "env_runners/num_env_steps_sampled_lifetime",
        "env_steps",
        "timesteps_total",
        "num_env_steps_sampled",
    ),
    "seconds": ("time_total_s",),
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
REPLAY = "replay_buffer/"
FILES = ("result.json", "result.json.gz", "progress.csv", "progress.csv.gz")


@dataclass(frozen=True)
class Results:
    """What a run reported.

    Attributes:
        table: A row per result, env_steps rising: the columns of `NAMES`, and the diagnostics as ``replay_buffer/...``.
        done: Whether Tune called the run done.
        note: What was wrong with the file, empty where nothing was.
    """

    table: pd.DataFrame
    done: bool = False
    note: str = ""


def read_results(folder: Path) -> Results:
    """The results in a run's folder.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file holds something else than results.
    """
    for name in FILES:
        path = folder / name
        if path.exists() and path.stat().st_size:
            rows, note = _lines(path) if "json" in name else _table(path)
            if len(rows):
                done = bool(rows["done"].iloc[-1] in (True, "True", 1)) if "done" in rows else False
                return Results(_tidy(rows), done, note)
            if note:
                return Results(_tidy(rows), note=note)
    return Results(_tidy(pd.DataFrame()))


def _lines(path: Path) -> tuple[pd.DataFrame, str]:
    """One JSON object per line; the last may be half written."""
    found: list[dict[str, Any]] = []
    broken = 0
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                broken += 1
                continue
            if not isinstance(row, dict):
                raise ValueError(f"{path.name} holds {type(row).__name__} where a result was expected")
            row.pop("config", None)
            found.append(row)
    if broken and not found:
        raise ValueError(f"{path.name} holds no result that can be read")
    return pd.json_normalize(found, sep="/"), f"{broken} unreadable line{'s' * (broken > 1)}" if broken else ""


def _table(path: Path) -> tuple[pd.DataFrame, str]:
    try:
        return pd.read_csv(path, on_bad_lines="skip"), ""
    except pd.errors.EmptyDataError:
        return pd.DataFrame(), ""


def _tidy(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns that are looked at, as numbers; what was done again after a restart counts as done the last time."""
    table = pd.DataFrame({name: _first_of(rows, names) for name, names in NAMES.items()}, index=rows.index)
    numeric = {name: pd.to_numeric(rows[name], errors="coerce") for name in rows if str(name).startswith(REPLAY)}
    table = pd.concat([table, pd.DataFrame(numeric, index=rows.index)], axis=1)
    table = table[np.isfinite(table["env_steps"])]
    steps = table["env_steps"].to_numpy()
    # A row stays when no later one has as few steps.
    later = np.minimum.accumulate(steps[::-1])[::-1]
    kept = np.append(steps[:-1] < later[1:], True) if len(steps) else np.zeros(0, dtype=bool)
    return table[kept].reset_index(drop=True)


def _first_of(rows: pd.DataFrame, names: Iterable[str]) -> pd.Series:
    """Row by row the first of several columns that holds a finite number."""
    found = pd.Series(np.nan, index=rows.index)
    for name in names:
        if name in rows:
            numbers = pd.to_numeric(rows[name], errors="coerce")
            found = found.fillna(numbers.where(np.isfinite(numbers)))
    return found
