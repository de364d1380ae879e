"""Requests to all running trials on all nodes: save, or save and stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class StopSignalActor:
    """Actor that passes requests to all trials; each trial waits for them in a thread."""

    def __init__(self) -> None:
        self._saves = 0
        self._stopping = False
        self._called = asyncio.Event()

    async def broadcast(self, request: str) -> None:
        """Send the request ``"save"`` or ``"stop"`` to all trials, including those that start later."""
        self._saves += request == "save"
        self._stopping |= request == "stop"
        called = self._called
        self._called = asyncio.Event()
        called.set()

    async def wait(self, saves: int | None) -> tuple[int, bool]:
        """Wait for a request, unless `saves`, the number of save requests that the trial has received, is None.

        Return the number of save requests so far, and whether a stop was requested.
        """
        while saves is not None and self._saves <= saves and not self._stopping:
            await self._called.wait()
        return self._saves, self._stopping


def start_signal_actor() -> Any:
    """Start a `StopSignalActor` on the driver's node, so that the loss of another node does not end it."""
    driver = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=driver)(StopSignalActor).remote()


def listen(signals: Any, ask: Callable[[str], Any]) -> None:
    """Pass requests of a `StopSignalActor` to ``ask``, in a thread that ends with the actor."""
    saves, stopping = ray.get(signals.wait.remote(None))
    if stopping:
        ask("stop")
        return

    def follow(seen: int) -> None:
        stopping = False
        while not stopping:
            try:
                seen, stopping = ray.get(signals.wait.remote(seen))
            except RayError:  # the driver has ended, and this process will end too
                return
            ask("stop" if stopping else "save")

    threading.Thread(target=follow, args=(saves,), daemon=True).start()
