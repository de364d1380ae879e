"""Env steps per second of processor time with 20 updates per step: our DroQ preset and SBX's DroQ (JAX).

    pip install sbx-rl; python -m benchmarks.speed.droq [--repeats 9]

HalfCheetah, batch 256, two layers of 256, one policy update per step, one thread. Both run in this process, in turn, on
one processor, because XLA has its own threads.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import interleaved, medians_table, quiet_single_thread, require

ENV = "HalfCheetah-v5"
STEPS = 50
"""Env steps per timed call."""
UPDATES = 20
"""Updates per env step."""
START = 500
"""Env steps before the first update."""


def ours(**settings: Any) -> Callable[[], Any]:
    """Return the `train` method of the preset's algorithm after its first updates."""
    from interreplay.experiments.flags.presets import load
    from interreplay.rllib import SACConfig

    preset = load("droq").settings("SAC", ENV) | settings
    for name in ("total_env_steps", "buffer_size", "learning_starts"):
        preset.pop(name, None)
    preset["num_steps_sampled_before_learning_starts"] = START
    preset["train_batch_size_per_learner"] = preset.pop("train_batch_size")
    config = SACConfig().environment(ENV).debugging(seed=0).replay("Uniform", capacity=100_000)
    algorithm = config.training(**preset, steps_per_iteration=STEPS).build_algo()
    for _ in range(START // STEPS + 1):
        algorithm.train()
    return algorithm.train


def sbx() -> Callable[[], Any]:
    """Return a function that trains SBX's DroQ with the same networks, batches and frequencies, already compiled."""
    from sbx import SAC

    model = SAC(
        "MlpPolicy",
        ENV,
        learning_starts=START,
        gradient_steps=UPDATES,
        policy_delay=UPDATES,
        batch_size=256,
        buffer_size=100_000,
        policy_kwargs={"net_arch": [256, 256], "dropout_rate": 0.01, "layer_norm": True},
        seed=0,
    )
    model.learn(START + STEPS)
    return lambda: model.learn(STEPS, reset_num_timesteps=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    require("sbx", install="pip install sbx-rl")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    quiet_single_thread()
    found = {"SBX": sbx(), "ours": ours(), "ours, bfloat16": ours(matrix_dtype="bfloat16")}
    seconds = interleaved(found, arguments.repeats, clock=time.process_time)
    rates = {name: STEPS / values for name, values in seconds.items()}
    ratios = {name: seconds["SBX"] / values for name, values in seconds.items()}
    head = ["DroQ, 20 updates per step", "env steps/s, median", "quartiles", "× SBX, median of pairs"]
    print(medians_table(head, rates, ratios))


if __name__ == "__main__":
    main()
