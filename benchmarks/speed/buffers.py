"""Replay buffers without training, compared with other libraries: time of a batch and of adding a row, memory per row.

    python -m benchmarks.speed.buffers [--rows 1000000] [--batch 256] [--repeats 1000] [--without NMER]

Every buffer holds the same number of rows of HalfCheetah's shape (observations of 17 numbers, actions of 6), in
episodes of 1,000. All contenders run in this process on one thread, in turn, one call each. Filling NMER's buffer with
10⁶ rows takes several minutes.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, medians_table, require, single_thread, table

OBS = 17
ACTION = 6
EPISODE = 1_000


def portions(rows: int, size: int = 10_000) -> Iterator[dict[str, Any]]:
    """Yield random rows in portions, as columns; next_obs is the next row's obs."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, size):
        n = min(size, rows - start)
        obs = rng.normal(size=(n + 1, OBS)).astype(np.float32)
        yield {
            "obs": obs[:-1],
            "actions": rng.uniform(-1, 1, (n, ACTION)).astype(np.float32),
            "rewards": rng.normal(size=n).astype(np.float32),
            "next_obs": obs[1:],
            "terminated": np.zeros(n, bool),
            "truncated": np.arange(start + 1, start + n + 1) % EPISODE == 0,
            "episode": np.arange(start, start + n) // EPISODE,
        }


def ours(name: str, rows: int) -> Any:
    """Return a full buffer of the catalog."""
    import replay_buffers
    from interreplay import Transitions

    buffer = getattr(replay_buffers, name)(capacity=rows, seed=0)
    for columns in portions(rows):
        buffer.add(Transitions(**columns))
    return buffer


def stable_baselines(rows: int) -> Any:
    """Return a full replay buffer of SB3."""
    from gymnasium.spaces import Box
    from stable_baselines3.common.buffers import ReplayBuffer

    buffer = ReplayBuffer(rows, Box(-np.inf, np.inf, (OBS,)), Box(-1, 1, (ACTION,)), device="cpu")
    at = 0
    for columns in portions(rows):
        here = slice(at, at := at + len(columns["rewards"]))
        for theirs, name in (
            ("observations", "obs"),
            ("next_observations", "next_obs"),
            ("actions", "actions"),
            ("rewards", "rewards"),
        ):
            column = getattr(buffer, theirs)
            column[here, 0] = columns[name]
        buffer.dones[here, 0] = columns["terminated"]
    buffer.full = True
    return buffer


def torchrl(rows: int, batch: int) -> Any:
    """Return a full replay buffer of TorchRL."""
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(rows), batch_size=batch)
    for columns in portions(rows):
        named = {name: torch.from_numpy(c) for name, c in columns.items() if name not in ("episode", "truncated")}
        buffer.extend(TensorDict(named, batch_size=[len(columns["rewards"])]))
    return buffer


def cpprb(rows: int, prioritized: bool) -> Any:
    """Return a full replay buffer of cpprb."""
    import cpprb

    shapes = {
        "obs": {"shape": OBS},
        "actions": {"shape": ACTION},
        "rewards": {},
        "next_obs": {"shape": OBS},
        "terminated": {},
    }
    buffer = cpprb.PrioritizedReplayBuffer(rows, shapes, alpha=0.6) if prioritized else cpprb.ReplayBuffer(rows, shapes)
    for columns in portions(rows):
        buffer.add(**{name: columns[name] for name in shapes})
    return buffer


def bare_gather(rows: int, batch: int) -> Callable[[], Any]:
    """Return a function that gathers random rows of five torch columns and does nothing else."""
    import torch

    rng = np.random.default_rng(0)
    shapes = [(rows, OBS), (rows, ACTION), (rows,), (rows, OBS), (rows,)]
    columns = [torch.ones(shape) for shape in shapes]

    def gather() -> Any:
        slots = torch.from_numpy(rng.integers(0, rows, batch))
        return [column[slots] for column in columns]

    return gather


def drawing(rows: int, batch: int, without: list[str]) -> dict[str, Callable[[], Any]]:
    """Return functions that draw a batch, by name."""
    sb3 = stable_baselines(rows)
    other = torchrl(rows, batch)
    cpp = cpprb(rows, prioritized=False)
    contenders = {
        "Stable-Baselines3": lambda: sb3.sample(batch),
        "TorchRL": lambda: other.sample(),
        "cpprb": lambda: cpp.sample(batch),
        "bare gather": bare_gather(rows, batch),
    }
    mine = {name: ours(name, rows) for name in ("Uniform", "NMER") if name not in without}
    return contenders | {f"ours, {name}": functools.partial(buffer.sample, batch) for name, buffer in mine.items()}


def prioritized(rows: int, batch: int) -> dict[str, Callable[[], Any]]:
    """Return functions that draw a batch and update its priorities, by name."""
    import torch

    per = ours("PER", rows)
    cpp = cpprb(rows, prioritized=True)
    rng = np.random.default_rng(0)

    def mine() -> None:
        per.update(per.sample(batch), torch.from_numpy(rng.normal(size=batch)))

    def theirs() -> None:
        sample = cpp.sample(batch, beta=0.4)
        cpp.update_priorities(sample["indexes"], np.abs(rng.normal(size=batch)) + 1e-6)

    return {"ours, PER": mine, "cpprb, prioritized": theirs}


def adder(buffer: Any) -> Callable[[], None]:
    """Return a function that adds one row."""
    from interreplay import Transitions

    (columns,) = portions(1_000)
    rows = Transitions(**columns)
    turns = itertools.cycle([rows[place : place + 1] for place in range(len(rows))])
    return lambda: buffer.add(next(turns))


def adding(rows: int) -> dict[str, Callable[[], Any]]:
    """Return functions that add one row to a full buffer, by name."""
    return {f"ours, {name}": adder(ours(name, min(rows, 100_000))) for name in ("Uniform", "PER")}


def report(title: str, contenders: dict[str, Callable[[], Any]], repeats: int, base: str) -> str:
    """Time the contenders and return a table of medians and quartiles."""
    seconds = interleaved(contenders, repeats, warm_up=20)
    micros = {}
    for name in sorted(seconds, key=lambda name: float(np.median(seconds[name]))):
        micros[name] = seconds[name] * 1e6
    ratios = {name: values / np.median(seconds[base]) for name, values in seconds.items()}
    return medians_table([title, "µs, median", "quartiles", f"× {base}"], micros, ratios, digits=0) + "\n"


def memory(rows: int) -> str:
    """Return a table of the bytes per stored row and the bytes of its numbers."""
    stored = ours("Uniform", rows).storage
    numbers = 4 * (OBS + ACTION + 1) + 2
    return table(
        ["memory per stored row", "bytes"],
        [["ours", f"{stored.nbytes / rows:.1f}"], ["s, a, r and two flags", numbers]],
    )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in each buffer")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="NAME", help="our buffers to leave out, such as NMER"
    )
    arguments = parser.parse_args()
    require("stable_baselines3", "torchrl", "cpprb")
    single_thread()
    rows = arguments.rows
    batch = arguments.batch
    repeats = arguments.repeats
    print(f"{rows} rows, batch {batch}, {repeats} repeats\n")
    print(report("draw a batch", drawing(rows, batch, arguments.without), repeats, "ours, Uniform"), flush=True)
    print(
        report("draw a batch and update its priorities", prioritized(rows, batch), repeats, "cpprb, prioritized"),
        flush=True,
    )
    print(report("add one row", adding(rows), repeats, "ours, Uniform"), flush=True)
    print(memory(rows))


if __name__ == "__main__":
    main()
