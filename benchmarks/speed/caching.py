"""Time saved by copying replayed unrolls in a background thread: ``python -m benchmarks.speed.caching``.

Wall-clock seconds per 1,000 env steps of IMPALA with and without `caching`, in turn. Half and three quarters of each
batch are replayed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.actors import CALL, TASKS, Ours
from benchmarks.measure import interleaved, single_thread, table
from interreplay.environments import registration


def main(argv: Sequence[str] | None = None) -> None:
    """Measure MinAtar's Breakout and Pong, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.caching", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["minatar", "pong"], choices=list(TASKS), help="tasks to measure")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.5, 0.75], help="replayed shares of each batch")
    parser.add_argument("--repeats", type=int, default=15, help="timed calls of each contender")
    args = parser.parse_args(argv)
    single_thread()
    rows = []
    for name in args.tasks:
        registration.register(TASKS[name].env)
        for share in args.shares:
            contenders = {
                "off": Ours(TASKS[name], replayed=share),
                "on": Ours(TASKS[name], replayed=share, caching=True),
            }
            seconds = interleaved(contenders, args.repeats)
            for contender in contenders.values():
                contender.stop()
            ratios = seconds["on"] / seconds["off"]
            cells = [f"{np.median(each) * 1_000 / CALL:.2f}" for each in seconds.values()]
            low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
            rows.append([TASKS[name].env, f"{share:g}", *cells, f"{middle:.2f}", f"{low:.2f} to {high:.2f}"])
    header = ["task", "replayed", "off, seconds per 1,000 steps", "on", "on : off, median of pairs", "quartiles"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
