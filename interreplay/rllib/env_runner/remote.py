"""Collectors of experience, and the runners in other processes: their requests, states and failures."""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorDiedError, RayError
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.annotations import override

from interreplay.environments.wrapped import own_name
from interreplay.errors import EnvironmentFailure, InterreplayError, RunnerLost
from interreplay.rllib.env_runner.wire_format import Packed, pack

logger = logging.getLogger(__name__)
MAX_FAILED_ROUNDS = 5
"""Rounds in a row in which every runner may fail, regardless of the configured number of restarts."""


@dataclass
class Collected:
    """The result of one round of collecting.

    Attributes:
        rows: Transitions or unrolls of each runner that answered, in the order of their indices.
        cut: Ids of episodes that will not be continued: interrupted by a reset, or lost with their runner.
        failure: Error to raise after the rows are stored.
    """

    rows: list[Any] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    failure: InterreplayError | None = None


class Collector(ABC):
    """Collects experience from one runner or several, in this process or in others."""

    @abstractmethod
    def collect(self, make: Callable[[Any, int], Any]) -> Collected:
        """Step the environments of the runners.

        Args:
            make: Called with a runner and the number of updates that its networks have seen; returns transitions,
                unrolls or another object with `columns`.
        """

    @abstractmethod
    def metrics(self) -> list[Any]:
        """Return the metrics of the runners."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the states of the runners in other processes."""

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict`."""

    def wait(self, restore: Callable[[], bool], stopped: Callable[[], bool]) -> None:  # noqa: B027
        """Wait for a runner after `collect` returned no rows.

        Args:
            restore: Takes restarted runners into service and returns whether there are any.
            stopped: Returns whether to stop waiting.

        Raises:
            RunnerLost: No runner will come back.
        """

    def statistics(self) -> dict[str, float]:
        """Return statistics of the runners since the last call, such as shares of waiting time and restarts."""
        return {}


class RemoteRunners:
    """The runners in other processes.

    Args:
        group: RLlib's group of runners.
        config: Configuration of the algorithm.

    Attributes:
        restarts: How often each runner's process was replaced, by index.
    """

    def __init__(self, group: EnvRunnerGroup, config: Any):
        self._group = group
        self._manager = group._worker_manager
        self._config = config
        self._failed_rounds = 0
        self._running: dict[int, list[int]] = {}
        self.restarts: dict[int, int] = {}

    @property
    def _are_restarted(self) -> bool:
        return bool(self._config.restart_failed_env_runners)

    def collect(
        self, weights: dict[str, Any], make: Callable[[Any], Any], unpack: Callable[[Packed], Any]
    ) -> Collected:
        """Let every runner collect with the newest weights, and wait for all of them.

        The weights are part of the request. RLlib's `sync_weights` drops them silently while two earlier transfers are
        in progress, so that a runner acts with old weights.

        Args:
            weights: State of the learner's module.
            make: Called with each runner in its process; returns an object with `columns`.
            unpack: Reconstructs the object from its packed columns.
        """
        reference = ray.put(weights)
        restarts = dict(self.restarts)

        def work(runner: Any) -> tuple[int, Packed, list[int], list[int]] | EnvironmentFailure:
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
            self.restarts[index] = count
            self._running[index] = running
            collected.rows.append(unpack(packed))
            collected.cut += cut
        for index in failures:
            collected.cut += self._running.pop(index, [])
        collected.failure = self.judge(failures, bool(collected.rows))
        return collected

    def _ask(self, work: Callable[[Any], Any]) -> tuple[dict[int, Any], dict[int, InterreplayError]]:
        """Return the replies of the runners in service, and the errors of the runners without a reply."""
        asked = self._manager.healthy_actor_ids()
        if not asked:
            return {}, {}
        results = self._manager.foreach_actor(work, timeout_seconds=self._config.sample_timeout_s)
        replies = {result.actor_id: result.get() for result in results if result.ok}
        failures = {result.actor_id: lost(result.get(), result.actor_id) for result in results if not result.ok}
        for index in set(asked) - replies.keys() - failures.keys():
            failures[index] = self.end(index)
        return replies, failures

    def end(self, index: int) -> RunnerLost:
        """End the process of a runner that did not answer in time, and return the error; Ray may start another one."""
        ray.kill(self._manager.actors()[index], no_restart=not self._are_restarted)
        self.put_out_of_service(index)
        env = own_name(self._config.env, self._config.env_config)
        return RunnerLost(
            f"remote env runner {index} returned nothing within sample_timeout_s={self._config.sample_timeout_s} s: "
            f"a step or a reset of {env} hangs, or takes longer"
        )

    def end_silent(self) -> None:
        """End runners that do not answer, for example in a step that hangs; RLlib would wait for them forever."""
        asked = self._manager.actor_ids()
        if not asked:
            return
        limit = self._config.env_runner_health_probe_timeout_s
        results = self._manager.foreach_actor(lambda runner: runner.ping(), healthy_only=False, timeout_seconds=limit)
        for index in set(asked) - {result.actor_id for result in results}:
            ray.kill(self._manager.actors()[index])

    def in_service(self) -> dict[int, Any]:
        """Return Ray's handles of the runners in service, by index."""
        handles = self._manager.actors()
        return {index: handles[index] for index in self._manager.healthy_actor_ids()}

    def put_out_of_service(self, index: int) -> None:
        """Send no further request to a runner until RLlib has found it restarted."""
        self._manager.set_actor_state(index, healthy=False)

    def dead_for_good(self) -> bool:
        """Return whether Ray will restart no runner; waits for those that are starting."""
        away = sorted(set(self._manager.actor_ids()) - set(self._manager.healthy_actor_ids()))
        results = self._manager.foreach_actor(
            lambda runner: runner.ping(),
            remote_actor_ids=away,
            healthy_only=False,
            timeout_seconds=self._config.env_runner_health_probe_timeout_s,
        )
        died = [isinstance(result.get(), ActorDiedError) for result in results]
        return len(died) == len(self._manager.actor_ids()) and all(died)

    def judge(self, failures: dict[int, InterreplayError], any_rows: bool) -> InterreplayError | None:
        """Return the error to raise for `failures` by runner, None if training continues without these runners."""
        cause = next(iter(failures.values()), None)
        self._failed_rounds = 0 if any_rows else self._failed_rounds + 1
        if not self._are_restarted and not self._config.ignore_env_runner_failures:
            return cause or self._missing()
        for index, failure in failures.items():
            logger.warning("remote env runner %d is out of service: %s", index, failure)
            if isinstance(failure, EnvironmentFailure):
                # Its process still answers: let it exit, and wait for that. Ray may start another one.
                self._manager.foreach_actor(lambda _: os._exit(1), remote_actor_ids=[index], healthy_only=False)
        if any_rows:
            return None
        if not self._are_restarted:
            return cause or RunnerLost("all remote env runners are lost, and restart_failed_env_runners is False")
        if self._failed_rounds >= min(MAX_FAILED_ROUNDS, self._config.num_consecutive_env_runner_failures_tolerance):
            return cause or RunnerLost("no remote env runner returned anything, despite repeated restarts")
        return None

    def _missing(self) -> RunnerLost | None:
        total = self._group.num_remote_env_runners()
        away = total - self._group.num_healthy_remote_env_runners()
        if not away:
            return None
        return RunnerLost(f"{away} of {total} remote env runners {'is' if away == 1 else 'are'} lost")

    def metrics(self) -> list[Any]:
        """Return the metrics of the runners in service; one that died is detected at the next request."""
        return self._of_each(lambda runner: runner.get_metrics())

    def states(self) -> dict[int, Any]:
        """Return the state of every runner in service by its index."""
        return dict(self._of_each(lambda runner: (runner.worker_index, runner.state_dict())))

    def _of_each(self, work: Callable[[Any], Any]) -> list[Any]:
        if not self._group.healthy_env_runner_ids():
            return []
        return [result.get() for result in self._manager.foreach_actor(work) if result.ok]

    def load_states(self, states: dict[int, Any], restarts: dict[int, int]) -> None:
        """Load the states of the runners; runners without a state start again as replacements of earlier ones.

        Args:
            states: The result of `states`.
            restarts: The value of `restarts` at that time.
        """
        self.restarts = dict(restarts)
        self._running = {index: np.asarray(state["log"]["ids"]).tolist() for index, state in states.items()}
        if not states:
            return
        reference = ray.put(states)

        def load(runner: Any) -> None:
            saved = ray.get(reference)
            if runner.worker_index in saved:
                runner.load_state_dict(saved[runner.worker_index])

        self._group.foreach_env_runner(load, local_env_runner=False)


class RemoteCollector(Collector):
    """Collects from all runners in other processes with the newest weights, and waits for all of them.

    Args:
        runners: The runners.
        learner: The learner whose weights they act with.
        unpack: Reconstructs transitions or unrolls from packed columns.
        patience: Seconds that all runners may be lost.
    """

    def __init__(self, runners: RemoteRunners, learner: Any, unpack: Callable[[Packed], Any], patience: float):
        self._runners = runners
        self._learner = learner
        self._unpack = unpack
        self._patience = patience

    def _weights(self) -> dict[str, Any]:
        return self._learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)

    @override(Collector)
    def collect(self, make: Callable[[Any, int], Any]) -> Collected:
        version = self._learner.updates
        return self._runners.collect(self._weights(), lambda runner: make(runner, version), self._unpack)

    @override(Collector)
    def metrics(self) -> list[Any]:
        return self._runners.metrics()

    @override(Collector)
    def wait(self, restore: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._patience
        while not stopped() and not restore():
            if self._runners.dead_for_good():
                raise RunnerLost("all remote env runners died, and max_num_env_runner_restarts allows no more restarts")
            if time.monotonic() > deadline:
                raise RunnerLost(
                    f"no remote env runner was restarted within env_runner_restore_timeout_s={self._patience} s"
                )
            time.sleep(0.1)

    @override(Collector)
    def state_dict(self) -> dict[str, Any]:
        return {"remote_runners": self._runners.states(), "runner_restarts": dict(self._runners.restarts)}

    @override(Collector)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._runners.load_states(state["remote_runners"], state["runner_restarts"])

    @override(Collector)
    def statistics(self) -> dict[str, float]:
        return {"runner_restarts": float(sum(self._runners.restarts.values()))}


def lost(error: RayError, index: int | None = None) -> InterreplayError:
    """Return our error for one of Ray's errors about a runner."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, InterreplayError):
        return cause
    runner = "a remote env runner" if index is None else f"remote env runner {index}"
    words = " ".join(str(error).split())
    return RunnerLost(f"{runner} died: {type(error).__name__}: {words[:300]}")


@contextmanager
def runner_errors() -> Iterator[None]:
    """Convert Ray's errors about runners inside the block into our errors."""
    try:
        yield
    except RayError as error:
        raise lost(error) from error
