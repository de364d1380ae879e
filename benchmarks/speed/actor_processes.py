"""Env steps per second with actors in separate processes and in one process, and the driver's share of a CPU.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.actor_processes [--env PongNoFrameskip-v4] [--runners 1] [--repeats 3]

IMPALA runs in one process and with its runners in others, in turn, each time from the start, with one thread per
process. Wall-clock time is measured, so that the results require an idle machine. The last line shows a driver that
waits for an environment that sleeps for 10 ms per step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

from benchmarks.actors import TASKS, Ours
from benchmarks.measure import quiet_single_thread, table
from interreplay.environments import registration

WAITS = "benchmarks.speed.actor_processes:Waits-v0"
"""CartPole with a pause in each step."""


class Waits(CartPoleEnv):
    """CartPole that sleeps for 10 ms before each step, like a slow simulator in another process."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Sleep and step."""
        time.sleep(0.01)
        return super().step(action)


gym.register("Waits-v0", "benchmarks.speed.actor_processes:Waits", max_episode_steps=500)


def run(env: str, runners: int, environments: int, seconds: float) -> dict[str, float]:
    """Return env steps per second and the driver's share of a CPU over `seconds`, after a fifth of them as warm-up."""
    quiet_single_thread()
    registration.register(env)
    like = TASKS["cartpole" if env == WAITS else "pong"]
    task = replace(like, env=env, environments=environments)
    algorithm = Ours(task, runners=runners, steps_per_iteration=task.steps * environments)
    end = time.perf_counter() + seconds / 5
    while time.perf_counter() < end:
        algorithm()
    start = time.perf_counter()
    spent = time.process_time()
    before = algorithm.steps
    while time.perf_counter() < start + seconds:
        algorithm()
    wall = time.perf_counter() - start
    found = {
        "steps/s": (algorithm.steps - before) / wall,
        "driver": (time.process_time() - spent) / wall,
    }
    algorithm.stop()
    return found


def run_in_process(env: str, runners: int, environments: int, seconds: float) -> dict[str, float]:
    """Return the result of `run` in a separate process."""
    words = [env, runners, environments, seconds]
    command = [sys.executable, "-m", "benchmarks.speed.actor_processes", "--one", json.dumps(words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--runners", type=int, default=1, help="number of actor processes")
    parser.add_argument("--environments", type=int, default=16, help="environments of all runners together")
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(*json.loads(args.one))))
        return
    found: dict[int, list[dict[str, float]]] = {0: [], args.runners: []}
    for _ in range(args.repeats):
        for runners, runs in found.items():
            runs.append(run_in_process(args.env, runners, args.environments, args.seconds))
    base = np.array([one["steps/s"] for one in found[0]])
    rows = []
    for runners, runs in found.items():
        rates = np.array([one["steps/s"] for one in runs])
        share = np.median([one["driver"] for one in runs])
        name = f"driver, {runners} more" if runners else "one process"
        each = ", ".join(f"{rate:.0f}" for rate in rates)
        rows.append([name, f"{np.median(rates):.0f}", each, f"{np.median(rates / base):.2f}", f"{share:.0%}"])
    waits = run_in_process(WAITS, args.runners, args.environments, args.seconds)
    rows.append(["driver that waits", f"{waits['steps/s']:.0f}", "", "", f"{waits['driver']:.1%}"])
    print(table([args.env, "env steps/s, median", "each", "× one process", "driver's share of a CPU"], rows))


if __name__ == "__main__":
    main()
