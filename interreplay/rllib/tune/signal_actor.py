"""A wish that reaches every running trial at once, on whichever node: save, or save and stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class Bell:
    """An actor; trials wait for it in a thread each."""

    def __init__(self) -> None:
        self._saves, self._stopping, self._rung = 0, False, asyncio.Event()

    async def ring(self, wish: str) -> None:
        """Broadcast the request ``"save"`` or ``"stop"`` to all who wait, and to those who come later."""
        self._saves += wish == "save"
        self._stopping |= wish == "stop"
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def wait(self, saves: int | None) -> tuple[int, bool]:
        """Return how often ``"save"`` was requested, and whether ``"stop"`` was; wait while it is at most ``saves``."""
        while saves is not None and self._saves <= saves and not self._stopping:
            await self._rung.wait()
        return self._saves, self._stopping


def hang_bell() -> Any:
    """Return a `Bell` on the driver's node, so that no trial needs a node that may be lost while the study goes on."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Bell).remote()


def listen(bell: Any, ask: Callable[[str], Any]) -> None:
    """Pass the requests of a bell on to ``ask``, from a thread of its own, as long as there is a bell."""
    saves, stopping = ray.get(bell.wait.remote(None))
    if stopping:
        ask("stop")
        return

    def follow(seen: int) -> None:
        stopping = False
        while not stopping:
            try:
                seen, stopping = ray.get(bell.wait.remote(seen))
            except RayError:  # the driver has ended, and this process is about to
                return
            ask("stop" if stopping else "save")

    threading.Thread(target=follow, args=(saves,), daemon=True).start()
