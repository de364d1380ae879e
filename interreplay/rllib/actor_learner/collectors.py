"""Where unrolls come from: the runner in the learner's process, or those in others, in step or as they come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import ray
from ray.rllib.utils.annotations import override

from interreplay.errors import EnvironmentFailure
from interreplay.rllib.actor_learner.requests import Requests
from interreplay.rllib.algorithms.collectors import Elsewhere, Here, RunnersOfLoop
from interreplay.rllib.env_runner.remote import Collected, RemoteRunners
from interreplay.rllib.env_runner.wire_format import Packed, unpack_unrolls


class Answer(NamedTuple):
    """What a runner gives to one request.

    Attributes:
        restarts: How often its process was replaced.
        packed: Columns of what it made.
        waited: Seconds that it had nothing to do before.
        metrics: As of RLlib's ``get_metrics``.
    """

    restarts: int
    packed: Packed
    waited: float
    metrics: Any


class UnrollCollector(RunnersOfLoop, Protocol):
    """Steps environments, and returns unrolls."""

    def collect(self, steps: int) -> Collected:
        """Make unrolls, some of at least one runner.

        Args:
            steps: T.
        """

    def statistics(self) -> dict[str, float]:
        """Return how the runners did since the last call: shares of the time that somebody waited, and restarts."""


class UnrollsHere(Here):
    """The runner in this process, which acts with the networks of now: nobody waits.

    Args:
        runner: An `UnrollRunner`.
        learner: Counts updates.
    """

    def __init__(self, runner: Any, learner: Any):
        super().__init__(runner)
        self._learner = learner

    def collect(self, steps: int) -> Collected:
        try:
            made = self._runner.make(steps, self._learner.updates)
        except EnvironmentFailure as failure:
            return Collected(failure=failure)
        return Collected([made], self._runner.take_cut_episodes())

    def statistics(self) -> dict[str, float]:
        return {}


class UnrollsInStep(Elsewhere):
    """All runners make unrolls with the newest weights, and are waited for, in the order of their indices.

    Args:
        runners: These.
        learner: Whose weights they act with.
        config: Of the algorithm.
        unpacked: Makes of packed columns what the runners made.
    """

    def __init__(self, runners: RemoteRunners, learner: Any, config: Any, unpacked: Callable[[Packed], Any]):
        super().__init__(runners, learner, config.env_runner_restore_timeout_s)
        self._unpacked = unpacked

    def collect(self, steps: int) -> Collected:
        version = self._learner.updates
        return self._runners.collect(self._weights(), lambda runner: runner.make(steps, version), self._unpacked)

    def statistics(self) -> dict[str, float]:
        return {"runner_restarts": float(sum(self._runners.restarts.values()))}


class UnrollsAsTheyCome(Elsewhere):
    """Runners work on one request after the other, with the weights of when each was sent.

    An answer of weights that are more than `max_lag` updates behind is waited for before any other is taken.

    Args:
        runners: These.
        learner: Whose weights they act with.
        config: Of the algorithm.
        unpacked: Makes of packed columns what a runner made.
    """

    def __init__(self, runners: RemoteRunners, learner: Any, config: Any, unpacked: Callable[[Packed], Any]):
        super().__init__(runners, learner, config.env_runner_restore_timeout_s)
        self._config, self._unpacked = config, unpacked
        self._begin()

    def _begin(self) -> None:
        config = self._config
        most, limit = config.max_requests_in_flight_per_env_runner, config.sample_timeout_s
        self._requests = Requests(self._runners, most, limit)
        self._arrived: list[Packed] = []
        self._metrics: list[Any] = []
        self._sent: tuple[int, list[ray.ObjectRef]] | None = None
        self._since, self._waited = time.monotonic(), 0.0
        self._idle: list[float] = []

    def collect(self, steps: int) -> Collected:
        if not self._arrived:
            self._send(steps)
            if not len(self._requests):
                return Collected(failure=self._runners.judge({}, False))
            failures = self._receive()
            if failures:
                return Collected(failure=self._runners.judge(failures, False))
        return Collected([self._unpacked(self._arrived.pop(0))], failure=self._runners.judge({}, True))

    def _send(self, steps: int) -> None:
        version, weights = self._newest()
        self._requests.send(lambda runner, restarts: runner.answer.remote(weights, version, steps, restarts), version)

    def _newest(self) -> tuple[int, list[ray.ObjectRef]]:
        """Return weights and their version; new ones after `broadcast_interval` updates, one object for all runners."""
        updates = self._learner.updates
        if self._sent is None or updates - self._sent[0] >= self._config.broadcast_interval:
            self._sent = updates, [ray.put(self._weights())]
        return self._sent

    def _receive(self) -> dict[int, Any]:
        """Keep the next answer, or return the errors of runners that gave none."""
        found = self._requests.receive(self._learner.updates - self._config.max_lag)
        if isinstance(found, dict):
            return found
        index, answer = found
        self._runners.restarts[index] = answer.restarts
        self._arrived.append(answer.packed)
        self._idle.append(answer.waited)
        self._metrics.append(answer.metrics)
        return {}

    @override(Elsewhere)
    def metrics(self) -> list[Any]:
        found, self._metrics = self._metrics, []
        return found

    def statistics(self) -> dict[str, float]:
        now, runners = time.monotonic(), max(1, len(self._runners.in_service()))
        passed = max(now - self._since, 1e-9)
        learner, actors = self._requests.waited - self._waited, sum(self._idle) / runners
        self._since, self._waited, self._idle = now, self._requests.waited, []
        return {
            "learner_waiting_share": min(1.0, learner / passed),
            "actors_waiting_share": min(1.0, actors / passed),
            "requests_in_flight": float(len(self._requests)),
            "runner_restarts": float(sum(self._runners.restarts.values())),
        }

    @override(Elsewhere)
    def state_dict(self) -> dict[str, Any]:
        """Return the states of the runners, and what they made that nobody took yet; waits for requests in flight."""
        while len(self._requests):
            self._receive()
        return super().state_dict() | {"arrived": list(self._arrived)}

    @override(Elsewhere)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        while len(self._requests):
            self._receive()
        self._begin()
        super().load_state_dict(state)
        self._arrived = list(state.get("arrived", []))


def make_collector(
    config: Any, group: Any, learner: Any, unpacked: Callable[[Packed], Any] = unpack_unrolls
) -> UnrollCollector:
    """Return the collector of a configuration.

    Args:
        config: Of the algorithm.
        group: RLlib's group of env runners.
        learner: Of the algorithm.
        unpacked: Makes of packed columns what its runners make.
    """
    if config.num_env_runners == 0:
        return UnrollsHere(group.local_env_runner, learner)
    kind = UnrollsInStep if config.sync else UnrollsAsTheyCome
    return kind(RemoteRunners(group, config), learner, config, unpacked)
