"""Storing transitions: processor time per row with and without a store, and listing a store of 10⁷ rows.

    python -m benchmarks.speed.experience [--rows 20000] [--listed 10000000]

A row is collected from an environment without physics and added to a replay buffer, as a run does it, with and without
a store. Times are processor times, including the writer thread; the smallest of five repetitions counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from benchmarks.measure import single_thread, table
from interreplay.experience.store import ExperienceStore, StoreWriter
from interreplay.experience.store.segments import JOURNAL, column_file, commit_record
from interreplay.rllib.env_runner.runner_state import REPORTED_SUCCESS, read_infos
from interreplay.transitions import Transitions, unchecked
from replay_buffers import Uniform

SPACES = (gym.spaces.Box(-1.0, 1.0, (17,)), gym.spaces.Box(-1.0, 1.0, (6,)))
SUCCESS = frozenset({REPORTED_SUCCESS})
INFOS = [{"reward_forward": 1.0}]


def collected(obs: torch.Tensor, number: int, length: int, names: frozenset[str]) -> Transitions:
    """Return row `number` as a runner returns it, with the columns of infos `names`."""
    live = np.array([True])
    extras = read_infos(names, INFOS)
    return unchecked(
        obs=obs[number : number + 1].clone(),
        actions=torch.zeros(1, 6),
        rewards=torch.zeros(1),
        next_obs=obs[number + 1 : number + 2].clone(),
        terminated=torch.zeros(1, dtype=torch.bool),
        truncated=torch.full((1,), number % length == length - 1),
        episode=torch.full((1,), number // length),
        extras={name: torch.from_numpy(column[live]) for name, column in extras.items()},
    )


def cost(rows: int, length: int, writer: StoreWriter | None) -> float:
    """Return the microseconds per row of collecting and adding, including to a store if there is a writer."""
    buffer = Uniform(capacity=rows, seed=0)
    obs = torch.randn(rows + 1, 17)
    names = SUCCESS if writer else frozenset[str]()
    begun = time.process_time()
    for number in range(rows):
        row = collected(obs, number, length, names)
        buffer.add(row)
        if writer:
            writer.add(row, number + 1, number)
    return (time.process_time() - begun) / rows * 1e6


def costs(rows: int, length: int, folder: Path) -> list[str]:
    """Return a row of the table of costs."""
    without: list[float] = []
    with_store: list[float] = []
    for repetition in range(5):
        without.append(cost(rows, length, None))
        writer = StoreWriter(folder / f"{length}-{repetition}", "HalfCheetah-v5", {}, SPACES)
        with_store.append(cost(rows, length, writer))
        writer.close()
    difference = min(with_store) - min(without)
    return [f"{length:,}", f"{min(without):.1f}", f"{min(with_store):.1f}", f"{difference:.1f}"]


def big_store(folder: Path, rows: int) -> None:
    """Write a store of `rows` rows whose observations are sparse files."""
    writer = StoreWriter(folder, "HalfCheetah-v5", {}, SPACES)
    writer.add(collected(torch.zeros(2, 17), 0, 1, SUCCESS), 1, 0)
    writer.close()
    segment = next(folder.glob("rows_*"))
    numbers = np.arange(rows)
    values = {"episode": numbers // 1000, "step": numbers + 1, "truncated": numbers % 1000 == 999}
    values["rewards"] = np.ones(rows, np.float32)
    for name, (shape, dtype) in ExperienceStore(folder).header.columns.items():
        file = column_file(segment, name)
        if name in values:
            values[name].tofile(file)
        else:
            with file.open("ab") as handle:
                handle.truncate(rows * dtype.itemsize * int(np.prod(shape)))
    (segment / JOURNAL).write_bytes(commit_record(rows, 0))


def seconds(work: Callable[[], Any]) -> float:
    """Return the smallest processor time of three calls."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="rows per repetition (default: 20,000)")
    parser.add_argument("--listed", type=int, default=10**7, help="rows of the listed store (default: 10,000,000)")
    given = parser.parse_args()
    single_thread()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [costs(given.rows, length, folder) for length in (1_000, 200, 20)]
        print(table(["steps per episode", "us per row", "with a store", "difference"], rows))
        big_store(folder / "big", given.listed)
        listed = seconds(lambda: ExperienceStore(folder / "big").episodes())
        print(f"\nsummary of the episodes of {given.listed:,} rows: {listed:.2f} s of processor time")


if __name__ == "__main__":
    main()
