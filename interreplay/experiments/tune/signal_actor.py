"""A request that reaches every running trial at once, on whichever node: save, or save and stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class StopSignalActor:
    """An actor; trials wait for it in a thread each."""

    def __init__(self) -> None:
        self._saves, self._stopping, self._called = 0, False, asyncio.Event()

    async def broadcast(self, request: str) -> None:
        """Broadcast the request ``"save"`` or ``"stop"`` to all who wait, and to those who come later."""
        self._saves += request == "save"
        self._stopping |= request == "stop"
        called, self._called = self._called, asyncio.Event()
        called.set()

    async def wait(self, saves: int | None) -> tuple[int, bool]:
        """Return how often ``"save"`` was requested, and whether ``"stop"`` was; wait while it is at most ``saves``."""
        while saves is not None and self._saves <= saves and not self._stopping:
            await self._called.wait()
        return self._saves, self._stopping


def start_signal_actor() -> Any:
    """Start a `StopSignalActor` on the driver's node: no trial needs a node that may be lost during the study."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(StopSignalActor).remote()


def listen(signals: Any, ask: Callable[[str], Any]) -> None:
    """Pass the requests of a `StopSignalActor` on to ``ask``, from a thread of its own, as long as it lives."""
    saves, stopping = ray.get(signals.wait.remote(None))
    if stopping:
        ask("stop")
        return

    def follow(seen: int) -> None:
        stopping = False
        while not stopping:
            try:
                seen, stopping = ray.get(signals.wait.remote(seen))
            except RayError:  # the driver has ended, and this process is about to
                return
            ask("stop" if stopping else "save")

    threading.Thread(target=follow, args=(saves,), daemon=True).start()
