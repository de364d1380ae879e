"""Stacks of frames: time to add a row and to draw a batch, and bytes per row, compared with a ring of whole stacks.

    python -m benchmarks.speed.frames [--rows 20000] [--batch 32] [--envs 1 8]

Rows are stacks of four frames of 84×84, as in Atari with the Nature preprocessing, in episodes of 400 steps, from
`--envs` environments at a time. The naive ring stores obs and next_obs unchanged. Both buffers are full when they are
measured, in turn, one call each, in processor time. The arrays to be added were just written, as by a runner.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table

STACK = 4
SIZE = 84
LENGTH = 400
FRAME_BYTES = SIZE * SIZE


def games(envs: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the columns of one step of all environments, endlessly; all frames differ."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 256, (500, SIZE, SIZE), dtype=np.uint8)
    episodes = list(range(envs))
    steps = [37 * env for env in range(envs)]
    count = 0

    def frame() -> np.ndarray:
        nonlocal count
        count += 1
        made = pictures[count % len(pictures)].copy()
        made[0, :8] = np.frombuffer(np.int64(count).tobytes(), np.uint8)
        return made

    now = np.stack([np.stack([frame()] * STACK) for _ in range(envs)])
    while True:
        following = np.concatenate([now[:, 1:], np.stack([frame() for _ in range(envs)])[:, None]], axis=1)
        steps = [step + 1 for step in steps]
        over = np.array([step >= LENGTH for step in steps])
        yield {
            "obs": now,
            "actions": rng.integers(0, 6, envs),
            "rewards": np.zeros(envs, np.float32),
            "next_obs": following,
            "terminated": over,
            "truncated": np.zeros(envs, bool),
            "episode": np.array(episodes),
        }
        for env in np.flatnonzero(over):
            episodes[env] = max(episodes) + 1
            steps[env] = 0
            following = following.copy()
            following[env] = frame()
        now = following


class Naive:
    """Ring buffer of whole stacks with uniform sampling."""

    def __init__(self, rows: int):
        self.rows = rows
        self.written = 0
        self.rng = np.random.default_rng(0)
        self.columns: dict[str, np.ndarray] = {}

    def add(self, columns: dict[str, np.ndarray]) -> None:
        if not self.columns:
            self.columns = {k: np.zeros((self.rows, *v.shape[1:]), v.dtype) for k, v in columns.items()}
        slots = (self.written + np.arange(len(columns["rewards"]))) % self.rows
        for name, column in columns.items():
            self.columns[name][slots] = column
        self.written += len(slots)

    def sample(self, size: int) -> dict[str, np.ndarray]:
        slots = self.rng.integers(0, self.rows, size)
        return {name: column[slots] for name, column in self.columns.items()}

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())


def measured(envs: int, rows: int, batch: int, repeats: int) -> list[list[str]]:
    """Return a row of the table for each kind of buffer."""
    from interreplay import Transitions
    from replay_buffers import Uniform

    ours = Uniform(capacity=rows, seed=0)
    naive = Naive(rows)
    played = games(envs)
    for _ in range(-(-rows // envs)):
        step = next(played)
        ours.add(Transitions(**step))
        naive.add(step)
    added: dict[str, list[float]] = {"ours": [], "naive": []}
    for _ in range(repeats):
        step = next(played)
        turns: tuple[tuple[str, Any, Any], ...] = (
            ("ours", ours.add, Transitions(**step)),
            ("naive", naive.add, step),
        )
        for name, add, columns in turns:
            start = time.process_time()
            add(columns)
            added[name].append((time.process_time() - start) / envs)
    both: dict[str, Any] = {"ours": ours, "naive": naive}
    drawn = interleaved(
        {name: partial(buffer.sample, batch) for name, buffer in both.items()}, repeats, clock=time.process_time
    )
    sizes = {"ours": ours.storage.nbytes, "naive": naive.nbytes}
    return [
        [
            name,
            str(envs),
            f"{np.median(added[name]) * 1e6:.0f} ({np.quantile(added[name], 0.1) * 1e6:.0f})",
            f"{np.median(drawn[name]) * 1e3:.2f}",
            f"{sizes[name] / rows:,.0f}",
            f"{sizes[name] / rows / FRAME_BYTES:.2f}",
        ]
        for name in both
    ]


def main() -> None:
    """Measure and print the table."""
    single_thread()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="rows in each buffer")
    parser.add_argument("--batch", type=int, default=32, help="rows per draw")
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 8], help="rows added at a time")
    parser.add_argument("--repeats", type=int, default=1_000, help="timed calls")
    line = parser.parse_args()
    lines = []
    for envs in line.envs:
        lines += measured(envs, line.rows, line.batch, line.repeats)
    head = [
        "",
        "rows at a time",
        "add a row, CPU µs, median (10 %)",
        f"draw {line.batch}, CPU ms",
        "bytes per row",
        "frames",
    ]
    print(table(head, lines))


if __name__ == "__main__":
    main()
