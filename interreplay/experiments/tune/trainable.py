"""A run of a study as a trial of Ray Tune, and the actor that requests to save or to stop from all trials."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from interreplay.experiments.tune.study_run import NOT_STARTED, PermanentFailure, StudyRun
from interreplay.rllib import ray_session
from interreplay.runs.state_files.disk import FolderInUse


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


class Trial(tune.Trainable):
    """A `StudyRun` in a process of Ray. An iteration of the run is an iteration of Tune."""

    def setup(self, config: dict[str, Any], signals: Any = None) -> None:
        """Prepare the run: ``config["job"]`` holds ``folder``, ``settings`` and ``hang_timeout``."""
        job = config["job"]
        ray_session.hide_messages()
        torch.set_num_threads(job["settings"]["threads"])
        self._run = StudyRun(Path(job["folder"]), job["settings"], job["hang_timeout"])
        listen(signals, self._run.ask)
        self._results = self._run.results()
        self._entered = False
        self._score: dict[str, float] = {}
        self._last: dict[str, Any] = {"env_steps": 0, "return": math.nan, "evaluation_return": math.nan}

    def step(self) -> dict[str, Any]:
        """Return one iteration of the run. The last one has ``done``."""
        try:
            if not self._entered:  # not in setup: Tune does not retry trials that fail there
                self._run.__enter__()
                self._entered = True
            self._last = next(self._results)
            kind = "evaluation_return" if self._last["evaluations"] else "return"
            if not math.isnan(self._last[kind]):
                self._score["score"] = self._last[kind]  # of the newest evaluation, for schedulers
        except (StopIteration, PermanentFailure) as end:
            self._leave()
            status = self._run.folder.status()
            reason = status.get("reason", "")
            if isinstance(end, PermanentFailure):
                reason = str(end)
            self._last |= {"done": True, "env_steps": status["env_steps"], "reason": reason}
        except FolderInUse as error:
            return self._last | {"done": True, "state": NOT_STARTED, "reason": str(error)}
        except BaseException:
            self._leave()
            raise
        return self._last | self._score | {"state": self._run.over}

    def _leave(self) -> None:
        if self._entered:
            self._run.__exit__()
        self._entered = False

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return nothing: the run saves checkpoints in its own folder."""
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: the run resumes from its own folder."""

    def cleanup(self) -> None:
        """Close the run, also if a scheduler stops the trial early."""
        if self._entered:
            self._results.close()
            self._run.record_outside_end()
            self._leave()
