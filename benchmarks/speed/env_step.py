"""Time of each part of an env step, and of the update compared with the processor's matrix rate.

    python -m benchmarks.speed.env_step [--trainer SAC|TD3] [--env HalfCheetah-v5] [--buffer Uniform] [--steps 1500]

One thread, batch 256, two layers of 256, one update per step. The time of all calls
of a part is divided by the steps of an iteration; the table shows medians over iterations. The floor is the update's
floating-point work at the rate at which this machine multiplies matrices of 256 by 256, measured in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import quiet_single_thread, table
from benchmarks.training import ours

BATCH = 256
WIDTH = 256
ALL = "**all of an env step**"
LOOP = "loop, reports, metrics"
REST = "everything but the update"
ACT = "  policy acts"
STEP = "  environment and its wrappers"
ORDER = (
    "runner",
    ACT,
    STEP,
    "buffer, add",
    "buffer, sample",
    "update",
    "buffer, update",
    "diagnostics",
    LOOP,
    ALL,
    REST,
)


class Watch:
    """Adds up the seconds of calls of methods, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def on(self, owner: Any, method: str, name: str) -> None:
        """Time every call of ``owner.method`` from now on."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **settings: Any) -> Any:
            start = time.perf_counter()
            result = inner(*arguments, **settings)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            return result

        setattr(owner, method, timed)

    def take(self) -> dict[str, float]:
        """Return the seconds since the last call."""
        taken = self.seconds
        self.seconds = {}
        return taken


def matrix_rate(repeats: int = 20) -> float:
    """Return floating-point operations per second of one 256×256×256 product."""
    import torch

    a = torch.randn(WIDTH, WIDTH)
    b = torch.randn(WIDTH, WIDTH)
    start = time.perf_counter()
    for _ in range(repeats):
        torch.mm(a, b)
    return repeats * 2 * WIDTH**3 / (time.perf_counter() - start)


def update_work(trainer: str, obs: int, actions: int) -> float:
    """Return the FLOPs of one update, products only: 2 per weight and row, forward and for each gradient.

    SAC: the actor forward twice, targets, critics forward, their gradient of weights and of hidden layers, critics
    forward again, back to the actions through the lower critic of each row, the actor's gradients. TD3: the actor,
    one critic and the actor's gradients at every second update, the target actor at every one.
    """
    hidden = WIDTH * WIDTH
    outputs = 2 * actions if trainer == "SAC" else actions
    actor = obs * WIDTH + hidden + WIDTH * outputs
    critic = (obs + actions) * WIDTH + hidden + WIDTH
    actor_back = actor + hidden + WIDTH * outputs
    critic_back = critic + hidden + WIDTH
    shared = actor + 2 * critic + 2 * critic + 2 * critic_back
    policy = actor + critic * (2 if trainer == "SAC" else 1) + critic + actor_back
    return 2.0 * BATCH * (shared + policy * (1.0 if trainer == "SAC" else 0.5))


def measure(algorithm: Any, iterations: int) -> tuple[dict[str, float], float]:
    """Return the median µs per env step of each part over iterations, and the median matrix rate."""
    watch = Watch()
    runner = algorithm.env_runner
    watch.on(runner, "collect", "runner")
    watch.on(runner, "_act", ACT)
    watch.on(runner, "_try_env_step", STEP)
    watch.on(algorithm.replay_buffer, "add", "buffer, add")
    watch.on(algorithm.replay_buffer, "sample", "buffer, sample")
    watch.on(algorithm.replay_buffer, "update", "buffer, update")
    watch.on(algorithm.diagnostics, "observe", "diagnostics")
    watch.on(algorithm.learner.update_rule, "update", "update")
    parts: dict[str, list[float]] = {}
    rates = []
    for _ in range(iterations):
        start = time.perf_counter()
        before = algorithm.env_steps
        algorithm.train()
        found = watch.take() | {ALL: time.perf_counter() - start}
        found[LOOP] = found[ALL] - sum(v for name, v in found.items() if name != ALL and not name.startswith(" "))
        for name, value in found.items():
            parts.setdefault(name, []).append(1e6 * value / (algorithm.env_steps - before))
        rates.append(matrix_rate())
    return {name: float(np.median(values)) for name, values in parts.items()}, float(np.median(rates))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="SAC", choices=["SAC", "TD3"])
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--buffer", default="Uniform")
    parser.add_argument("--steps", type=int, default=1_500)
    arguments = parser.parse_args()
    quiet_single_thread()
    algorithm = ours(arguments.env, arguments.buffer, arguments.trainer)
    algorithm.train()
    parts, rate = measure(algorithm, -(-arguments.steps // algorithm.config.steps_per_iteration))
    observation_space, action_space = algorithm.single_spaces
    work = update_work(arguments.trainer, observation_space.shape[0], action_space.shape[0])
    update = parts["update"]
    parts[REST] = parts[ALL] - update
    rows = [[name, f"{parts[name]:.0f}", f"{parts[name] / update:.3f}"] for name in ORDER]
    floor = 1e6 * work / rate
    rows.append([f"floor: {work / 1e6:.0f} MFLOP at {rate / 1e9:.0f} GFLOP/s", f"{floor:.0f}", f"{floor / update:.3f}"])
    print(table([f"{arguments.trainer}, {arguments.buffer}", "µs per env step", "× the update"], rows))


if __name__ == "__main__":
    main()
