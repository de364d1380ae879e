"""Runners in other processes: what they are asked for, their states, and what happens when one is lost."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorDiedError, RayError
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from interreplay.environments.wrapped import own_name
from interreplay.errors import EnvironmentFailure, InterreplayError, RunnerLost
from interreplay.rllib.env_runner.wire_format import pack

logger = logging.getLogger(__name__)
# Rounds in a row in which every runner failed, whatever restarts they were granted.
FRUITLESS_ROUNDS = 5


@dataclass
class Collected:
    """What runners gave.

    Attributes:
        rows: Transitions, or unrolls, of each runner that answered, in the order of their indices.
        cut: Episodes that nothing will continue: broken off in runners that live, and all of those that are gone.
        failure: To be raised once the rows are stored.
    """

    rows: list[Any] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    failure: InterreplayError | None = None


class RemoteRunners:
    """The runners in other processes.

    Args:
        group: RLlib's group of them.
        config: Of the algorithm.

    Attributes:
        restarts: How often each runner's process was replaced, by index.
    """

    def __init__(self, group: EnvRunnerGroup, config: Any):
        self._group, self._config = group, config
        self._fruitless, self._running = 0, dict[int, list[int]]()
        self.restarts: dict[int, int] = {}

    @property
    def _restarted(self) -> bool:
        return bool(self._config.restart_failed_env_runners)

    def collect(self, weights: dict[str, Any], make: Callable[[Any], Any], unpacked: Callable[[Any], Any]) -> Collected:
        """Let every remote runner make something with the newest weights, and wait for all.

        The weights go with the request: RLlib's `sync_weights` drops them while two earlier ones are on their way, and
        a runner then acts with old ones, now and then, without a word.

        Args:
            weights: State of the learner's module.
            make: Called with each runner in its process; returns what has `columns`.
            unpacked: Makes the same again of these columns, packed.
        """
        reference, restarts = ray.put(weights), dict(self.restarts)

        def work(runner: Any) -> tuple[int, Any, list[int], list[int]] | EnvironmentFailure:
            runner.set_state(ray.get(reference))
            count = runner.count_restart(restarts.get(runner.worker_index))
            try:
                made = make(runner)
            except EnvironmentFailure as failure:
                return failure
            return count, pack(made.columns()), runner.take_cut_episodes(), runner.running_episodes()

        collected = Collected()
        replies, failures = self._ask(work)
        for index, reply in sorted(replies.items()):
            if isinstance(reply, EnvironmentFailure):
                failures[index] = reply
                continue
            count, packed, cut, running = reply
            if count != self.restarts.setdefault(index, count):
                collected.cut += self._running.get(index, [])
            self.restarts[index], self._running[index] = count, running
            collected.rows.append(unpacked(packed))
            collected.cut += cut
        for index in failures:
            collected.cut += self._running.pop(index, [])
        collected.failure = self.judge(failures, bool(collected.rows))
        return collected

    def _ask(self, work: Callable[[Any], Any]) -> tuple[dict[int, Any], dict[int, InterreplayError]]:
        """Return the replies of the runners in service, and what those that gave none are to be blamed for."""
        manager, limit = self._group._worker_manager, self._config.sample_timeout_s
        asked = manager.healthy_actor_ids()
        results = manager.foreach_actor(work, timeout_seconds=limit) if asked else ()
        replies = {result.actor_id: result.get() for result in results if result.ok}
        failures = {result.actor_id: lost(result.get(), result.actor_id) for result in results if not result.ok}
        for index in set(asked) - replies.keys() - failures.keys():
            failures[index] = self.end(index)
        return replies, failures

    def end(self, index: int) -> RunnerLost:
        """End the process of a runner that gave nothing in time; Ray starts another where it may. Return the error."""
        manager = self._group._worker_manager
        ray.kill(manager.actors()[index], no_restart=not self._restarted)
        manager.set_actor_state(index, healthy=False)
        env = own_name(self._config.env, self._config.env_config)
        return RunnerLost(
            f"remote env runner {index} gave nothing within sample_timeout_s={self._config.sample_timeout_s} s: "
            f"a step or a reset of {env} hangs, or takes longer than that"
        )

    def end_silent(self) -> None:
        """End those for good that do not answer, such as one in a step that hangs: RLlib waits without a bound."""
        manager, limit = self._group._worker_manager, self._config.env_runner_health_probe_timeout_s
        asked = manager.actor_ids()
        if not asked:
            return
        results = manager.foreach_actor(lambda runner: runner.ping(), healthy_only=False, timeout_seconds=limit)
        for index in set(asked) - {result.actor_id for result in results}:
            ray.kill(manager.actors()[index])

    def in_service(self) -> dict[int, Any]:
        """Return Ray's handles of the runners in service, by index."""
        manager = self._group._worker_manager
        handles = manager.actors()
        return {index: handles[index] for index in manager.healthy_actor_ids()}

    def put_out_of_service(self, index: int) -> None:
        """Ask a runner nothing more until RLlib has found it restarted."""
        self._group._worker_manager.set_actor_state(index, healthy=False)

    def dead_for_good(self) -> bool:
        """Return whether Ray will start no other process for any runner; waits for those that are starting."""
        manager = self._group._worker_manager
        away = sorted(set(manager.actor_ids()) - set(manager.healthy_actor_ids()))
        wait = self._config.env_runner_health_probe_timeout_s
        results = manager.foreach_actor(
            lambda runner: runner.ping(), remote_actor_ids=away, healthy_only=False, timeout_seconds=wait
        )
        died = [isinstance(result.get(), ActorDiedError) for result in results]
        return len(died) == len(manager.actor_ids()) and all(died)

    def judge(self, failures: dict[int, InterreplayError], any_rows: bool) -> InterreplayError | None:
        """Return what is to be raised for `failures` by runner, None where training goes on without these runners."""
        cause = next(iter(failures.values()), None)
        self._fruitless = 0 if any_rows else self._fruitless + 1
        if not self._restarted and not self._config.ignore_env_runner_failures:
            return cause or self._missing()
        for index, failure in failures.items():
            logger.warning("remote env runner %d is out of service: %s", index, failure)
            if isinstance(failure, EnvironmentFailure):
                self._exit(index)
        if any_rows:
            return None
        if not self._restarted:
            return cause or RunnerLost("all remote env runners are lost, and restart_failed_env_runners is False")
        if self._fruitless >= min(FRUITLESS_ROUNDS, self._config.num_consecutive_env_runner_failures_tolerance):
            return cause or RunnerLost("no remote env runner gave anything, though they were restarted again and again")
        return None

    def _missing(self) -> RunnerLost | None:
        total = self._group.num_remote_env_runners()
        away = total - self._group.num_healthy_remote_env_runners()
        if not away:
            return None
        return RunnerLost(f"{away} of {total} remote env runners {'is' if away == 1 else 'are'} lost")

    def _exit(self, index: int) -> None:
        """Let a runner that answers end its process, and wait for that; Ray starts another where it may."""
        self._group._worker_manager.foreach_actor(lambda _: os._exit(1), remote_actor_ids=[index], healthy_only=False)

    def metrics(self) -> list[Any]:
        """Return what the runners in service report; one that died meanwhile is noticed at the next request."""
        return self._of_each(lambda runner: runner.get_metrics())

    def states(self) -> dict[int, Any]:
        """Return the state of every runner in service by its index."""
        return dict(self._of_each(lambda runner: (runner.worker_index, runner.state_dict())))

    def _of_each(self, work: Callable[[Any], Any]) -> list[Any]:
        results = self._group._worker_manager.foreach_actor(work) if self._group.healthy_env_runner_ids() else ()
        return [result.get() for result in results if result.ok]

    def load_states(self, states: dict[int, Any], restarts: dict[int, int] | None = None) -> None:
        """Bring the runners into `states`; those that are in none begin anew, as replacements of those before them.

        Args:
            states: What `states` gave.
            restarts: What `restarts` was then; None for a checkpoint that knows none.
        """
        self.restarts = dict.fromkeys(states, 0) if restarts is None else dict(restarts)
        self._running = {index: np.asarray(state["log"]["ids"]).tolist() for index, state in states.items()}
        if not states:
            return
        reference = ray.put(states)

        def load(runner: Any) -> None:
            saved = ray.get(reference)
            if runner.worker_index in saved:
                runner.load_state_dict(saved[runner.worker_index])

        self._group.foreach_env_runner(load, local_env_runner=False)


def lost(error: RayError, index: int | None = None) -> InterreplayError:
    """Return the error of ours for one of Ray's about a runner."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, InterreplayError):
        return cause
    who = "a remote env runner" if index is None else f"remote env runner {index}"
    words = " ".join(str(error).split())
    return RunnerLost(f"{who} died: {type(error).__name__}: {words[:300]}")


@contextmanager
def naming_losses() -> Iterator[None]:
    """Raise errors of ours in place of Ray's about runners, inside the block."""
    try:
        yield
    except RayError as error:
        raise lost(error) from error
