"""Env steps per second of processor time with 20 updates per step: presets for few env steps.

    python -m benchmarks.speed.sample_efficient [--repeats 9]

HalfCheetah on one thread. All variants run in this process, in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import interleaved, medians_table, quiet_single_thread

ENV = "HalfCheetah-v5"
STEPS = 20
"""Env steps per timed call."""
START = 1_000
"""Env steps before the first update."""
VARIANTS = {
    "nmer-layer-norm": "--preset nmer-layer-norm",
    "sample-efficient": "--preset sample-efficient --torch_compile true",
    "nmer-one-critic": "--preset nmer-one-critic --torch_compile true",
    "nmer-one-critic, residual critic": "--preset nmer-one-critic --torch_compile true --critic_blocks 1",
    "nmer-one-critic, not compiled": "--preset nmer-one-critic --torch_compile false",
    "the same, bfloat16": "--preset nmer-one-critic --torch_compile false --matrix_dtype bfloat16",
    "the same, two critics": "--preset nmer-one-critic --torch_compile false --n_critics 2",
    "the same, Uniform": "--preset nmer-one-critic --torch_compile false --buffer Uniform",
    "the same, residual critic": "--preset nmer-one-critic --torch_compile false --critic_blocks 1",
}


def contender(flags: str) -> Callable[[], Any]:
    """Return a function that trains for `STEPS` env steps, after the first updates."""
    from benchmarks.learning.processor_minutes import make_algorithm

    algorithm = make_algorithm(f"{flags} --env {ENV} --learning_starts {START} --steps_per_iteration {STEPS}")
    while algorithm.env_steps < START + STEPS:
        algorithm.train()
    return algorithm.train


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    arguments = parser.parse_args()
    quiet_single_thread()
    found = {name: contender(VARIANTS[name]) for name in arguments.variants}
    seconds = interleaved(found, arguments.repeats, clock=time.process_time)
    base = next(iter(seconds.values()))
    rates = {name: STEPS / values for name, values in seconds.items()}
    ratios = {name: base / values for name, values in seconds.items()}
    head = ["20 updates per step", "env steps/s, median", "quartiles", "× first, median of pairs"]
    print(medians_table(head, rates, ratios))


if __name__ == "__main__":
    main()
