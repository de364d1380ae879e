"""Asynchronous collecting: several requests per remote runner are in flight, and answers are used as they arrive."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from interreplay.errors import InterreplayError
from interreplay.rllib.env_runner.remote import (
    CollectionResult,
    Collector,
    FromColumns,
    RemoteCollector,
    RemoteRunners,
    convert_error,
    unpack,
)


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
        waited: Seconds that `receive` has waited in this process.
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
            next_limit = min(map(self._last_contact.__getitem__, awaited.values())) + self._limit
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
        self._waited = 0.0
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
        """Store the next answer, or return the error of a runner that failed."""
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
        learner = self._requests.waited - self._waited
        actors = self._idle / max(1, len(self._runners.get_handles()))
        self._since = now
        self._waited = self._requests.waited
        self._idle = 0.0
        return {
            "learner_waiting_share": min(1.0, learner / passed),
            "actors_waiting_share": min(1.0, actors / passed),
            "requests_in_flight": float(len(self._requests)),
        }

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
