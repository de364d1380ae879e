"""Replay methods that choose rows, compared with PER and Uniform: `sample` with `update`, and the cost of their scores.

    python -m benchmarks.speed.selection [--rows 100000] [--repeats 500]

All buffers hold the same rows of HalfCheetah's shape. Each method draws a batch of 256 and receives the errors and
scores that it requires, in turn with PER and Uniform, in one process on one thread. Updates of SAC are measured with
and without these scores, and with batches drawn by Uniform and by LaBER, which scores candidates with SAC's networks.
New rows are added one at a time to full buffers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table
from benchmarks.speed.buffers import ACTION, OBS, adder, portions

METHODS = {"LAP": "PER", "ReLo": "PER", "LA3P": "PER", "ERE": "Uniform", "TruncatedGeometric": "Uniform"}
METHODS |= {"EventTables": "Uniform"}
BATCH = 256


def buffers(rows: int) -> dict[str, Any]:
    """Return full buffers by name."""
    import replay_buffers
    from interreplay import Transitions

    made = {
        name: getattr(replay_buffers, name)(capacity=rows, seed=0) for name in ("Uniform", "PER", *METHODS, "LaBER")
    }
    for columns in portions(rows):
        for buffer in made.values():
            buffer.add(Transitions(**columns))
    return made


def turn(buffer: Any, seed: int = 0) -> Callable[[], None]:
    """Return a function that draws a batch and reports its errors and scores."""
    import torch

    rng = np.random.default_rng(seed)

    def run() -> None:
        errors = torch.from_numpy(rng.normal(size=BATCH).astype(np.float32))
        buffer.update(buffer.sample(BATCH), errors, dict.fromkeys(buffer.scores_wanted, errors))

    return run


def learner() -> tuple[Any, Any]:
    """Return an update of SAC with the paper's networks, and a generator."""
    import torch

    from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate

    torch.manual_seed(0)
    return SACUpdate(SACNetworks(OBS, ACTION), target_entropy=-float(ACTION)), torch.Generator().manual_seed(0)


def updates(made: dict[str, Any], scored: frozenset[str] = frozenset()) -> Callable[[], None]:
    """Return a function that makes one update of SAC, including the scores `scored`."""
    update, rng = learner()
    update.scores_wanted = scored
    batch = made["Uniform"].sample(BATCH)
    return lambda: update.update(batch, rng)


def learning(buffer: Any) -> Callable[[], None]:
    """Return a function that draws a batch, scoring candidates if the method requires it, and learns from it."""
    from interreplay.part import Context

    update, rng = learner()
    buffer.connect(Context(score=lambda rows, names: update.score(rows, names, rng)))
    return lambda: update.update(buffer.sample(BATCH), rng)


def compare(title: str, pairs: dict[str, tuple[Callable[[], None], str, Callable[[], None]]], repeats: int) -> str:
    """Measure pairs in turn and return a table."""
    lines = []
    for name, (mine, other, theirs) in pairs.items():
        seconds = interleaved({other: theirs, name: mine}, repeats, warm_up=10)
        ratio = np.median(seconds[name] / seconds[other])
        medians = (f"{np.median(seconds[each]) * 1e6:.0f}" for each in (name, other))
        lines.append([name, *medians, other, f"{ratio:.2f}"])
    return table([title, "µs, median", "the other's", "compared with", "×, median of pairs"], lines) + "\n"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=500)
    arguments = parser.parse_args()
    single_thread()
    made = buffers(arguments.rows)
    repeats = arguments.repeats
    turns = {name: (turn(made[name]), other, turn(made[other])) for name, other in METHODS.items()}
    print(compare(f"sample({BATCH}) and update, {arguments.rows:,} rows", turns, repeats), flush=True)
    plain = updates(made)
    variants = {
        "with the largest error (LAP)": (updates(made, frozenset({"largest_error"})), "SAC's update", plain),
        "with the reducible loss (ReLo)": (updates(made, frozenset({"reducible_loss"})), "SAC's update", plain),
        "LaBER's sample and update": (learning(made["LaBER"]), "Uniform's", learning(made["Uniform"])),
    }
    print(compare("one SAC update, 2×256, batch 256", variants, max(20, repeats // 4)), flush=True)
    added = {name: (adder(made[name]), "Uniform", adder(made["Uniform"])) for name in METHODS}
    print(compare("add one row to a full buffer", added, repeats), flush=True)


if __name__ == "__main__":
    main()
