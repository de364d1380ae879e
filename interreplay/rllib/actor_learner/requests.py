"""Requests to runners in other processes, several of them in flight, whose answers are taken as they come."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

from interreplay.errors import EnvironmentFailure, InterreplayError
from interreplay.rllib.env_runner.remote import RemoteRunners, lost


class Request(NamedTuple):
    """A request on the way: the runner's index, and the version of the weights that it was sent."""

    runner: int
    version: int


class Requests:
    """What runners in other processes work on: at most so many requests each, so that none of them waits for us.

    Waiting takes no processor time: Ray wakes this process when an answer is there.

    Args:
        runners: These.
        most: Requests in flight per runner, 1 or more; with 1 a runner waits until it is asked again.
        limit: Seconds in which a runner is to answer; None for any number.

    Attributes:
        waited: Seconds that `receive` waited in the whole run of this process.
    """

    def __init__(self, runners: RemoteRunners, most: int, limit: float | None):
        self._runners, self._most, self._limit = runners, most, math.inf if limit is None else limit
        self._in_flight: dict[ray.ObjectRef, Request] = {}
        self._heard_of: dict[int, float] = {}
        self.waited = 0.0

    def __len__(self) -> int:
        return len(self._in_flight)

    def send(self, ask: Callable[[Any, int | None], ray.ObjectRef], version: int) -> None:
        """Send every runner in service as many requests as it lacks.

        Args:
            ask: Sends one, given Ray's handle of the runner and how often its process is known to have been replaced.
            version: Of the weights that they are sent.
        """
        waiting = Counter(request.runner for request in self._in_flight.values())
        for index, handle in self._runners.in_service().items():
            if not waiting[index]:
                self._heard_of[index] = time.monotonic()
            for _ in range(self._most - waiting[index]):
                self._in_flight[ask(handle, self._runners.restarts.get(index))] = Request(index, version)

    def receive(self, oldest: float = -math.inf) -> tuple[int, Any] | dict[int, InterreplayError]:
        """Wait for an answer; where requests are on the way of versions before `oldest`, for one of those.

        Those of one runner come in the order in which it was asked, so that its episodes go on where they were.

        Returns:
            The runner's index and its answer, or where one failed, died or took too long, the errors by index.
        """
        while not (failures := self._overdue(begun := time.monotonic())):
            first = self._first_of_each()
            awaited = [one for one in first if self._in_flight[one].version < oldest] or first
            next_limit = min(self._heard_of[self._in_flight[one].runner] for one in awaited) + self._limit
            timeout = None if math.isinf(next_limit) else max(0.0, next_limit - begun)
            ready, _ = ray.wait(awaited, num_returns=1, timeout=timeout)
            self.waited += time.monotonic() - begun
            if ready:
                return self._answer(ready[0])
        return failures

    def _first_of_each(self) -> list[ray.ObjectRef]:
        """Return the oldest request of each runner: of several answers that are there `ray.wait` gives any one."""
        found: dict[int, ray.ObjectRef] = {}
        for reference, request in self._in_flight.items():
            found.setdefault(request.runner, reference)
        return list(found.values())

    def _answer(self, request: ray.ObjectRef) -> tuple[int, Any] | dict[int, InterreplayError]:
        index = self._in_flight.pop(request).runner
        self._heard_of[index] = time.monotonic()
        try:
            answer = ray.get(request)
        except RayError as error:
            self._runners.put_out_of_service(index)
            self._forget(index)
            return {index: lost(error, index)}
        if isinstance(answer, EnvironmentFailure):
            self._forget(index)
            return {index: answer}
        return index, answer

    def _overdue(self, now: float) -> dict[int, InterreplayError]:
        """End runners that had their time and have answered nothing; return the errors."""
        found: dict[int, InterreplayError] = {}
        for index in {request.runner for request in self._in_flight.values()}:
            if now < self._heard_of[index] + self._limit:
                continue
            mine = [reference for reference, request in self._in_flight.items() if request.runner == index]
            if not ray.wait(mine, num_returns=1, timeout=0)[0]:
                self._forget(index)
                found[index] = self._runners.end(index)
        return found

    def _forget(self, index: int) -> None:
        self._in_flight = {r: request for r, request in self._in_flight.items() if request.runner != index}
