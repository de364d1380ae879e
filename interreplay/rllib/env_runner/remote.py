"""Collectors of experience, and the runners in other processes: their requests, transfers, states and failures."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from safetensors.numpy import load, save
from torch import Tensor

from interreplay.environments.registration import inner_env_name
from interreplay.errors import EnvironmentFailure, InterreplayError, NonFiniteError, RunnerLost, describe_error
from interreplay.transitions import to_arrays, to_tensors

FromColumns = Callable[[dict[str, Tensor]], Any]
"""Creates transitions, unrolls or another object from its columns by name."""


def pack(columns: Mapping[str, Tensor]) -> bytes:
    """Return columns as one block of bytes. Pickled tensors have some 300 bytes of overhead each."""
    return save(to_arrays(columns))


def unpack(packed: bytes) -> dict[str, Tensor]:
    """Return packed columns, which can be written to.

    Each has memory of its own, aligned like a new array: the rounding of small matrix products depends on it.
    """
    return to_tensors(load(packed))


@dataclass
class CollectionResult:
    """The result of one round of collecting.

    Attributes:
        rows: Transitions or unrolls of each runner that answered, in the order of their indices.
        cut: Ids of episodes that will not be continued, because a reset interrupted them.
        failure: Error to raise after the rows are stored.
    """

    rows: list[Any] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    failure: InterreplayError | None = None


class Collector(ABC):
    """Collects experience from one runner or several, in this process or in others."""

    @abstractmethod
    def collect(self, make: Callable[[Any, int], Any]) -> CollectionResult:
        """Step the environments of the runners.

        Args:
            make: Called with a runner and the number of updates of its networks; returns transitions,
                unrolls or another object with `columns`.
        """

    @abstractmethod
    def metrics(self) -> list[Any]:
        """Return the metrics of the runners."""

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the runners in other processes, by index."""
        return {"remote_runners": {}}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict`."""

    def statistics(self) -> dict[str, float]:
        """Return statistics of the runners since the last call, such as shares of waiting time."""
        return {}


class RemoteRunners:
    """The runners in other processes. A lost runner ends the run, which resumes from its checkpoint."""

    def __init__(self, group: EnvRunnerGroup, config: Any):
        self._manager = group._worker_manager
        self._config = config
        self._error: InterreplayError | None = None  # the first one in `call_each`

    def call_with_weights(
        self, weights: dict[str, Any], work: Callable[[Any], Any], limit: str
    ) -> tuple[list[Any], InterreplayError | None]:
        """Call a function with every runner after it has received `weights`, and wait for all of them.

        The weights are part of the request. RLlib's `sync_weights` drops them silently while two earlier transfers are
        in progress, so that a runner acts with old weights.

        Args:
            weights: The state of the learner's module.
            work: The function, which is called in the processes of the runners.
            limit: Name of the setting with the number of seconds to wait.

        Returns:
            The results of the runners that returned one, in the order of their indices, and an error or None.
        """
        if failure := self.missing():
            return [], failure
        reference = ray.put(weights)

        def receive_and_work(runner: Any) -> Any:
            runner.set_state(ray.get(reference))
            try:
                return work(runner)
            except (EnvironmentFailure, NonFiniteError) as failure:
                return failure

        silent = set(self.get_handles())
        found = []
        results = self._manager.foreach_actor(receive_and_work, timeout_seconds=getattr(self._config, limit))
        for result in sorted(results, key=lambda each: each.actor_id):
            silent.discard(result.actor_id)
            reply = result.get()
            if not result.ok:
                failure = convert_error(reply, result.actor_id)
            elif isinstance(reply, EnvironmentFailure | NonFiniteError):
                failure = reply
            else:
                found.append(reply)
        if silent:
            failure = self.end(min(silent), limit)
        return found, failure

    def get_handles(self) -> dict[int, Any]:
        """Return Ray's handles of the runners in service, by index."""
        handles = self._manager.actors()
        return {index: handles[index] for index in self._manager.healthy_actor_ids()}

    def missing(self) -> InterreplayError | None:
        """Return the error of an earlier round in which runners were lost, or None."""
        if self._error is not None:
            return self._error
        total = len(self._manager.actor_ids())
        away = total - len(self.get_handles())
        return RunnerLost(f"{away} of {total} remote env runners lost") if away else None

    def put_out_of_service(self, index: int) -> None:
        """Send no further request to a runner."""
        self._manager.set_actor_state(index, healthy=False)

    def end(self, index: int, limit: str = "sample_timeout_s") -> RunnerLost:
        """End the process of a runner that did not answer within the setting `limit`, and return the error."""
        ray.kill(self._manager.actors()[index])
        self.put_out_of_service(index)
        env = inner_env_name(self._config.env, self._config.env_config)
        return RunnerLost(
            f"remote env runner {index} returned nothing within {limit}={getattr(self._config, limit)} s: "
            f"a step or a reset of {env} hangs, or takes longer"
        )

    def end_silent(self) -> None:
        """End runners that do not answer, for example in a step that hangs, and remove them and those that died.

        RLlib would wait for the former forever, and print a traceback for the latter.
        """
        silent = set(self._manager.actor_ids())
        if not silent:
            return
        limit = self._config.env_runner_health_probe_timeout_s
        results = self._manager.foreach_actor(lambda runner: runner.ping(), healthy_only=False, timeout_seconds=limit)
        for index in silent - {result.actor_id for result in results if result.ok}:
            ray.kill(self._manager.remove_actor(index))

    def call_each(self, work: Callable[[Any], Any], limit: float | None = None) -> list[Any]:
        """Call a function with each runner in service, and return the results that arrive within `limit` seconds.

        `missing` returns the first error.
        """
        if not self.get_handles():
            return []
        found = []
        for result in self._manager.foreach_actor(work, timeout_seconds=limit):
            if result.ok:
                found.append(result.get())
            elif self._error is None:
                self._error = convert_error(result.get(), result.actor_id)
        return found

    def states(self, limit: float | None = None) -> dict[int, Any]:
        """Return the states of the runners in service, by index; `limit` is as for `call_each`."""
        return dict(self.call_each(lambda runner: (runner.worker_index, runner.state_dict()), limit))

    def load_states(self, states: Mapping[int, Any], env_steps: int) -> None:
        """Continue from `states`; runners without one begin after `env_steps` env steps of the run."""
        if not self.get_handles():
            return
        reference = ray.put(states)

        def load(runner: Any) -> None:
            saved = ray.get(reference).get(runner.worker_index)
            if saved is None:
                runner.begin_new(env_steps)
            else:
                runner.load_state_dict(saved)

        self.call_each(load)


class RemoteCollector(Collector):
    """Collects from all runners in other processes with the newest weights, and waits for all of them."""

    def __init__(self, runners: RemoteRunners, learner: Any, from_columns: FromColumns):
        self._runners = runners
        self._learner = learner
        self._from_columns = from_columns

    def _weights(self) -> dict[str, Any]:
        return self._learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)

    @override(Collector)
    def collect(self, make: Callable[[Any, int], Any]) -> CollectionResult:
        version = self._learner.updates

        def work(runner: Any) -> tuple[bytes, list[int]]:
            return pack(make(runner, version).columns()), runner.take_cut_episodes()

        replies, failure = self._runners.call_with_weights(self._weights(), work, "sample_timeout_s")
        collected = CollectionResult(failure=failure)
        for packed, cut in replies:
            collected.rows.append(self._from_columns(unpack(packed)))
            collected.cut += cut
        return collected

    @override(Collector)
    def metrics(self) -> list[Any]:
        return self._runners.call_each(lambda runner: runner.get_metrics())

    @override(Collector)
    def state_dict(self) -> dict[str, Any]:
        return {"remote_runners": self._runners.states()}

    @override(Collector)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._runners.load_states(state["remote_runners"], state["env_steps"])


def convert_error(error: RayError, index: int | None = None) -> InterreplayError:
    """Convert one of Ray's errors about a runner into one of our errors."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, InterreplayError):
        return cause
    runner = "a remote env runner" if index is None else f"remote env runner {index}"
    if isinstance(error, RayTaskError) and cause is not None:  # such as an error of a callback
        return RunnerLost(f"{runner} raised {describe_error(cause)}")
    words = " ".join(str(error).split())
    words = words.partition(" Some common causes include")[0]  # Ray appends guesses
    _, _, cause = words.partition("The actor is dead because ")
    if not cause:
        cause = f"{type(error).__name__}: {words[:300]}"
    return RunnerLost(f"{runner} died: {cause.removesuffix('.')}")


@contextmanager
def runner_errors() -> Iterator[None]:
    """Convert Ray's errors about runners inside the block into our errors."""
    try:
        yield
    except RayError as error:
        raise convert_error(error) from error


# -- asynchronous collecting -------------------------------------------------------------------------


class Answer(NamedTuple):
    """A runner's answer to one request."""

    packed: bytes  # columns of the unrolls or gradients
    waited: float  # seconds that the runner was idle before
    metrics: Any  # result of RLlib's ``get_metrics``


class Requests:
    """Requests to runners in other processes, several per runner, so that no runner waits for the learner.

    Waiting takes no processor time: Ray wakes this process when an answer arrives.

    Args:
        runners: The runners.
        max_in_flight: Requests in flight per runner, 1 or more; with 1, a runner waits for its next request.
        limit: Seconds within which a runner must answer; None for no limit.

    Attributes:
        waited: Seconds that `receive` has waited in this process; the caller resets it.
    """

    def __init__(self, runners: RemoteRunners, max_in_flight: int, limit: float | None):
        self._runners = runners
        self._max_in_flight = max_in_flight
        self._limit = math.inf if limit is None else limit
        self._in_flight: dict[int, list[tuple[ray.ObjectRef, int]]] = {}  # with versions, by runner
        self._last_contact: dict[int, float] = {}
        self.waited = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._in_flight.values()))

    def send(self, ask: Callable[[Any], ray.ObjectRef], version: int) -> None:
        """Send requests to every runner in service until each has `max_in_flight`."""
        for index, handle in self._runners.get_handles().items():
            requests = self._in_flight.setdefault(index, [])
            if not requests:
                self._last_contact[index] = time.monotonic()
            while len(requests) < self._max_in_flight:
                requests.append((ask(handle), version))

    def receive(self, oldest: float = -math.inf) -> Answer | InterreplayError:
        """Wait for an answer; for one of a version before `oldest` if such requests are in flight.

        The answers of one runner arrive in the order of its requests, so that its episodes continue.

        Returns:
            The answer, or the error of a runner that failed, died or took too long.
        """
        while True:
            begun = time.monotonic()
            first = {}  # of several answers that have arrived, `ray.wait` returns any one
            outdated = {}
            for index, requests in self._in_flight.items():
                if not requests:
                    continue
                reference, version = requests[0]
                overdue = begun >= self._last_contact[index] + self._limit
                if overdue and not ray.wait([reference], num_returns=1, timeout=0)[0]:
                    del self._in_flight[index]
                    return self._runners.end(index)
                first[reference] = index
                if version < oldest:
                    outdated[reference] = index
            awaited = outdated or first
            next_limit = min(self._last_contact[index] for index in awaited.values()) + self._limit
            timeout = None if math.isinf(next_limit) else max(0.0, next_limit - begun)
            ready, _ = ray.wait(list(awaited), num_returns=1, timeout=timeout)
            self.waited += time.monotonic() - begun
            if ready:
                return self._answer(awaited[ready[0]])

    def _answer(self, index: int) -> Answer | InterreplayError:
        """Return the answer to a runner's first request; the other runners' answers are used before its next one."""
        (request, _), *others = self._in_flight.pop(index)
        self._last_contact[index] = time.monotonic()
        try:
            answer: Any = ray.get(request)
        except RayError as error:
            self._runners.put_out_of_service(index)
            answer = convert_error(error, index)
        if not isinstance(answer, InterreplayError):
            self._in_flight[index] = others
        return answer


class AsyncCollector(RemoteCollector):
    """Collects from runners that answer one request after another, with the weights sent with each request.

    If the weights of a request are more than `max_lag` updates old, its answer is awaited before any other.
    """

    def __init__(self, runners: RemoteRunners, learner: Any, from_columns: FromColumns, config: Any):
        super().__init__(runners, learner, from_columns)
        self._config = config
        self._begin()

    def _begin(self) -> None:
        self._requests = Requests(
            self._runners, self._config.max_requests_in_flight_per_env_runner, self._config.sample_timeout_s
        )
        self._arrived: list[bytes] = []
        self._metrics: list[Any] = []
        self._failure: InterreplayError | None = None  # received while saving
        self._sent: tuple[int, list[ray.ObjectRef]] | None = None
        self._since = time.monotonic()
        self._idle = 0.0

    @override(Collector)
    def collect(self, make: Callable[[Any, int], Any]) -> CollectionResult:
        if not self._arrived:
            failure = self._failure or self._runners.missing()
            self._failure = None
            if failure is None:
                self._send(make)
                failure = self._receive()
            if failure is not None:
                return CollectionResult(failure=failure)
        return CollectionResult([self._from_columns(unpack(self._arrived.pop(0)))])

    def _send(self, make: Callable[[Any, int], Any]) -> None:
        """Send requests with the weights; new weights after `broadcast_interval` updates, as one object for all."""
        updates = self._learner.updates
        if self._sent is None or updates - self._sent[0] >= self._config.broadcast_interval:
            self._sent = updates, [ray.put(self._weights())]
        version, weights = self._sent
        self._requests.send(lambda runner: runner.answer.remote(make, weights, version), version)

    def _receive(self) -> InterreplayError | None:
        answer = self._requests.receive(self._learner.updates - self._config.max_lag)
        if isinstance(answer, InterreplayError):
            return answer
        self._arrived.append(answer.packed)
        self._idle += answer.waited
        self._metrics.append(answer.metrics)
        return None

    @override(Collector)
    def metrics(self) -> list[Any]:
        used = max(0, len(self._metrics) - len(self._arrived))  # unused answers are not yet counted as env steps
        found = self._metrics[:used]
        self._metrics = self._metrics[used:]
        return found

    @override(Collector)
    def statistics(self) -> dict[str, float]:
        now = time.monotonic()
        passed = max(now - self._since, 1e-9)
        actors = self._idle / max(1, len(self._runners.get_handles()))
        found = {
            "learner_waiting_share": min(1.0, self._requests.waited / passed),
            "actors_waiting_share": min(1.0, actors / passed),
            "requests_in_flight": float(len(self._requests)),
        }
        self._since = now
        self._requests.waited = 0.0
        self._idle = 0.0
        return found

    @override(Collector)
    def state_dict(self) -> dict[str, Any]:
        """Return the states of the runners, and unused answers and metrics; waits for requests in flight.

        The next `collect` without unused answers returns the first error of these requests.
        """
        while len(self._requests):
            failure = self._receive()
            self._failure = self._failure or failure
        metrics = [self._logger(each).get_state() for each in self._metrics]
        return super().state_dict() | {"arrived": list(self._arrived), "metrics": metrics}

    @override(Collector)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        while len(self._requests):
            self._receive()
        self._begin()
        super().load_state_dict(state)
        self._arrived = list(state.get("arrived", []))
        for saved in state.get("metrics", []):  # checkpoints of older versions lack them
            logger = self._logger({})
            logger.set_state(saved)
            self._metrics.append(logger.stats)

    def _logger(self, metrics: dict[str, Any]) -> MetricsLogger:
        """Return a logger with the metrics of an answer, for its conversion from and to plain values."""
        logger = MetricsLogger(stats_cls_lookup=self._config.stats_cls_lookup)
        logger.stats = metrics
        return logger
