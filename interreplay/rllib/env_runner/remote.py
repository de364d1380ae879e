"""Runners in other processes: what they are asked for, and their states."""

from __future__ import annotations

from typing import Any

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from interreplay.rllib.env_runner import runner_state
from interreplay.rllib.env_runner.wire_format import pack, unpack
from interreplay.transitions import Transitions


def collect(
    group: EnvRunnerGroup,
    weights: dict[str, Any],
    length: int,
    warm_up: bool,
    record_policy_output: bool,
    progress: float | None = None,
) -> list[tuple[Transitions, list[int]]]:
    """Let every remote runner step its environments with the newest weights.

    The weights go with the request: RLlib's `sync_weights` drops them while two earlier ones are on their way, and a
    runner then acts with old ones, now and then, without a word.

    Args:
        group: The runners.
        weights: State of the learner's module.
        length: Steps of each environment.
        warm_up: Act at random.
        record_policy_output: Add the columns of what the policy gave.
        progress: Of the run, for exploration with a schedule; None leaves it where it is.

    Returns:
        Of each runner, in the order of their indices, its rows and the episodes that were broken off.
    """
    reference = ray.put(weights)

    def work(runner: Any) -> tuple[int, Any, list[int]]:
        runner.set_state(ray.get(reference))
        rows = runner.collect(length * runner.num_envs, warm_up, record_policy_output, progress)
        return runner.worker_index, pack(rows), runner.take_cut_episodes()

    results = group.foreach_env_runner(work, local_env_runner=False)
    return [(unpack(packed), cut) for _, packed, cut in sorted(results, key=lambda result: result[0])]


def states(group: EnvRunnerGroup) -> dict[int, Any]:
    """The state of every remote runner by its index."""
    return dict(group.foreach_env_runner(lambda r: (r.worker_index, runner_state.save(r)), local_env_runner=False))


def load_states(group: EnvRunnerGroup, states: dict[int, Any]) -> None:
    """Bring the remote runners into `states`; those that are in none begin anew."""
    if not states:
        return
    reference = ray.put(states)

    def load(runner: Any) -> None:
        saved = ray.get(reference)
        if runner.worker_index in saved:
            runner_state.load(runner, saved[runner.worker_index])

    group.foreach_env_runner(load, local_env_runner=False)
