"""Cost of NMER compared with Uniform while an agent learns: env steps per second, and `add` and `sample` alone.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.nmer_spans [--buffers Uniform NMER "NMER{k: 5}"]

SAC on HalfCheetah-v5, batch 256, 2×256, one update per env step, one thread. Two agents learn from step 0 in turns of a
hundred steps. Then two other agents learn with buffers that already hold `--rows` rows of random actions. Finally the
first agent's rows are added one by one to buffers alone, with a batch of 256 after each. The processor time of this
process is counted; the wall-clock time is shown, too. Ratios are medians over pairs of turns.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from benchmarks.measure import single_thread, table
from benchmarks.training import fill

TURN = 100
SPANS = ((1_000, 3_000), (4_000, 6_000))


def agent(buffer: str, rows: int = 0) -> Any:
    """Return SAC with a buffer such as ``NMER{k: 5}`` that contains `rows` rows of random actions."""
    from interreplay.experiments.studies.grid import entry
    from interreplay.rllib import SACConfig

    name, chosen = entry(buffer, "buffer")
    settings: dict[str, Any] = {
        "num_steps_sampled_before_learning_starts": 0 if rows else 1_000,
        "steps_per_iteration": TURN,
    }
    config = SACConfig().environment("HalfCheetah-v5").debugging(seed=0).replay(name, capacity=1_000_000, **chosen)
    made = config.training(**settings).build_algo()
    if rows:
        fill(made.replay_buffer, "HalfCheetah-v5", rows)
    return made


def turns(agents: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    """Return seconds of processor time and of the wall clock ``(turns, 2)`` of each agent, all in turn."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in agents}
    for turn in range(steps // TURN):
        for name in list(agents)[:: 1 if turn % 2 else -1]:
            processor = time.process_time()
            wall = time.perf_counter()
            agents[name].train()
            spent[name].append((time.process_time() - processor, time.perf_counter() - wall))
    return {name: np.array(seconds) for name, seconds in spent.items()}


def rates(span: str, spent: dict[str, np.ndarray]) -> list[list[str]]:
    """Return rows of the table: env steps per second of processor time, and ratios to the first, median of pairs."""
    first = next(iter(spent.values()))
    rows = []
    for name, seconds in spent.items():
        processor, wall = np.median(first / seconds, axis=0)
        rows.append([span, name, f"{np.median(TURN / seconds[:, 0]):.1f}", f"{processor:.3f}", f"{wall:.3f}"])
    return rows


def core(names: list[str], stored: Any, start: int, stop: int, before: Any = None) -> dict[str, np.ndarray]:
    """Return µs of processor time ``(turns, 2)`` per `add` and `sample(256)` of rows `start` to `stop` of `stored`."""
    import replay_buffers
    from interreplay.experiments.studies.grid import entry

    buffers = {}
    spent: dict[str, list[Any]] = {name: [] for name in names}
    for name in names:
        method, chosen = entry(name, "buffer")
        buffers[name] = getattr(replay_buffers, method)(capacity=1_000_000, seed=0, **chosen)
        for part in ([] if before is None else [before]) + ([stored[:start]] if start else []):
            buffers[name].add(part)
        for _ in range(200 if len(buffers[name]) else 0):
            buffers[name].sample(256)
    for first in range(start, stop, TURN):
        for name, buffer in buffers.items():
            add = sample = 0.0
            for i in range(first, first + TURN):
                begin = time.process_time()
                buffer.add(stored[i : i + 1])
                middle = time.process_time()
                buffer.sample(256)
                add += middle - begin
                sample += time.process_time() - middle
            spent[name].append((add / TURN * 1e6, sample / TURN * 1e6))
    return {name: np.array(each) for name, each in spent.items()}


def alone(names: list[str], rows: Any, many: Any) -> str:
    """Return the table of buffers without agents."""
    lines = []
    cases = [(f"{a:,}–{b:,}", a, b, None) for a, b in SPANS] + [(f"{len(many):,}", 0, 2_000, many)]
    for span, start, stop, before in cases:
        for name, spent in core(names, rows, start, stop, before).items():
            lines.append([span, name, *(f"{value:.0f}" for value in spent.mean(0)), f"{spent.sum(1).mean():.0f}"])
    return table(["rows stored", "buffer", "µs per add, mean", "µs per sample(256), mean", "both"], lines)


def learned(names: list[str], lines: list[list[str]]) -> Any:
    """Train agents through the spans, append their rates to `lines`, and return the rows of the first one."""
    agents = {name: agent(name) for name in names}
    done = 0
    for start, stop in SPANS:
        turns(agents, start - done)
        lines += rates(f"{start:,}–{stop:,}", turns(agents, stop - start))
        done = stop
    stored = agents[names[0]].replay_buffer.storage
    return stored[torch.arange(len(stored))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buffers", nargs="+", default=["Uniform", "NMER"], help="others are compared with the first")
    parser.add_argument("--only-full", action="store_true", help="measure only the last span, without buffers alone")
    parser.add_argument("--rows", type=int, default=100_000, help="rows stored beforehand in the last span")
    parser.add_argument("--repeats", type=int, default=20, help="turns of a hundred steps in the last span")
    arguments = parser.parse_args()
    single_thread()
    header = ["env steps", "buffer", "env steps/s of processor time, median", "× first, processor", "× first, wall"]
    lines: list[list[str]] = []
    rows = None if arguments.only_full else learned(arguments.buffers, lines)
    full = {name: agent(name, arguments.rows) for name in arguments.buffers}
    turns(full, 3 * TURN)
    lines += rates(f"at {arguments.rows:,} rows", turns(full, arguments.repeats * TURN))
    print(table(header, lines) + "\n", flush=True)
    if rows is None:
        return
    stored = full[arguments.buffers[0]].replay_buffer.storage
    print(alone(arguments.buffers, rows, stored[torch.arange(arguments.rows)]))


if __name__ == "__main__":
    main()
