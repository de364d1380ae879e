"""Run a study through Ray Tune: each run in its own process, as many at a time as the resources allow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.exceptions import OutOfMemoryError, RayError
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from interreplay.errors import RunFailure, UsageError
from interreplay.experiments.process.machine import check_room, count_cpus, format_count
from interreplay.experiments.process.progress import StudyReporter
from interreplay.experiments.process.signals import Interrupts
from interreplay.experiments.studies.study import Execution, Job, State, StudyFolder, TrialFolder, cpus_per_run
from interreplay.experiments.tune.hyperparameter_search import SequentialSearch, scheduler
from interreplay.experiments.tune.study_run import EndOfTrial, StudyRun
from interreplay.rllib import ray_session

PATIENCE = 60.0
"""Seconds in which running trials must have saved after a request to stop."""
LONGEST_WAIT = 60.0
"""Seconds of a trial's call that waits for a request. Ray does not end the calls of a process that has ended, and an
actor answers at most 1,000 calls at a time."""
_TUNE = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # runs write their own results
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # studies resume from the folders of their runs
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a run has no score before its first evaluation
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths of settings are relative to the user's folder
}


class StopSignalActor:
    """Actor that passes requests to all trials; each trial waits for them in a thread."""

    def __init__(self) -> None:
        self._requests: list[str] = []
        self._changed = asyncio.Condition()

    async def broadcast(self, request: str) -> None:
        """Send the request ``"save"`` or ``"stop"`` to all trials, including those that start later."""
        async with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    async def wait(self, received: int) -> list[str]:
        """Return all requests once they are more than a trial has received, at once for -1, or after `LONGEST_WAIT`."""
        async with self._changed:
            more = self._changed.wait_for(lambda: len(self._requests) > received)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(more, LONGEST_WAIT)
            return self._requests


def start_signal_actor() -> Any:
    """Start a `StopSignalActor` on the driver's node, so that the loss of another node does not end it."""
    driver = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=driver)(StopSignalActor).remote()


def listen(signals: Any, ask: Callable[[str], Any]) -> None:
    """Pass requests of a `StopSignalActor` to ``ask``, in a thread that ends with the actor; earlier saves are over."""
    known = ray.get(signals.wait.remote(-1))
    if "stop" in known:
        ask("stop")
        return

    def follow() -> None:
        requests = known
        while "stop" not in requests:
            received = len(requests)
            try:
                requests = ray.get(signals.wait.remote(received))
            except RayError:  # the driver has ended, and this process will end too
                return
            if len(requests) > received:
                ask("stop" if "stop" in requests else "save")

    threading.Thread(target=follow, daemon=True).start()


class Trial(tune.Trainable):
    """A `StudyRun` in a process of Ray. An iteration of the run is an iteration of Tune."""

    def setup(self, config: dict[str, Any], signals: Any = None, hang_timeout: float = 0.0) -> None:
        """Prepare the run: ``config["job"]`` holds ``folder`` and ``settings``."""
        job = config["job"]
        ray_session.hide_messages()
        torch.set_num_threads(job["settings"]["threads"])
        self._run = StudyRun(Path(job["folder"]), job["settings"], hang_timeout)
        listen(signals, self._run.ask)
        self._results = self._run.results()  # begins in the first step: Tune does not retry trials that fail here
        self._score: dict[str, float] = {}
        self._last: dict[str, Any] = {"env_steps": 0, "return": math.nan, "evaluation_return": math.nan}

    def step(self) -> dict[str, Any]:
        """Return one iteration of the run. The last one has ``done``."""
        try:
            self._last = next(self._results)
        except StopIteration:
            return self._last | self._score | self._run.end | {"done": True}
        kind = "evaluation_return" if self._last["evaluations"] else "return"
        if not math.isnan(self._last[kind]):
            self._score["score"] = self._last[kind]  # of the newest evaluation, for schedulers
        return self._last | self._score

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return nothing: the run saves checkpoints in its own folder."""
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: the run resumes from its own folder."""

    def cleanup(self) -> None:
        """End the run if it has not ended by itself."""
        with contextlib.suppress(EndOfTrial, StopIteration):
            self._results.throw(EndOfTrial)


class Progress(tune.Callback, tune.Stopper):
    """Passes the events of trials to a reporter, and stops Tune after a request.

    Tune is stopped when each trial that was running at the request has saved, at the latest at the `deadline`.
    """

    def __init__(self, reporter: StudyReporter):
        self._reporter = reporter
        self.running: set[str] = set()
        self.deadline = math.inf
        self._failures: dict[str, int] = {}
        self._awaited: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the reporter out, which holds a stream: studies resume from the folders of their runs."""
        return vars(self) | {"_reporter": None}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.running.add(str(trial))
        self._failures[str(trial)] = len(_folder(trial).status()["failures"])
        self._reporter.on_event("start", str(trial), {})

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        self._reporter.on_event("result", str(trial), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        figures = dict(trial.last_result or {})
        total = trial.config["job"]["settings"]["total_env_steps"]
        state = State.STOPPED  # by a scheduler
        if figures.get("env_steps", 0) >= total:  # also if a scheduler judged its last step
            state = State.FINISHED
        figures["state"] = figures.get("state") or state  # a run that ends by itself reports its state
        self._leave("end", trial, figures)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("retry", trial, {"reason": self._reason(trial)})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("fail", trial, {"reason": self._reason(trial)})

    def _leave(self, event: str, trial: Any, figures: dict[str, Any]) -> None:
        self.running.discard(str(trial))
        self._reporter.on_event(event, str(trial), figures)

    def _reason(self, trial: Any) -> str:
        """Return why a trial failed. If its process ended before it could record the failure, record it here."""
        folder = _folder(trial)
        failures = folder.status()["failures"]
        if len(failures) <= self._failures.get(str(trial), 0):
            cause = ""
            if trial.error_file:
                for line in Path(trial.error_file).read_text().split("\n"):
                    if "exit" in line.lower() or "low on memory" in line:
                        cause = line.partition(" Some common causes include")[0]  # Ray appends guesses
            failures = folder.note_failure(f"its process ended: {cause}")["failures"]
        self._failures[str(trial)] = len(failures)
        return failures[-1]

    def request_stop(self) -> None:
        """Request the end."""
        if self.deadline == math.inf:
            self._awaited = set(self.running)
            self.deadline = time.monotonic() + PATIENCE

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        if self.deadline == math.inf:
            return False
        return self._awaited.isdisjoint(self.running) or time.monotonic() > self.deadline


def _folder(trial: Any) -> TrialFolder:
    return TrialFolder(Path(trial.config["job"]["folder"]))


@ray_session.replaced(os.environ, _TUNE)  # later runs of Tune in this process are not affected
def run_trials(
    jobs: Sequence[Job],
    execution: Execution,
    folder: StudyFolder,
    reporter: StudyReporter,
    searcher: SequentialSearch | None = None,
) -> int:
    """Run all jobs, or until a signal, and return its exit code, 0 without one.

    SIGUSR1 makes each running trial save and continue. SIGTERM and SIGINT make it save and stop.
    A searcher draws the settings of each run when it starts.
    """
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # its tracebacks are in the runs' error.txt
    signals = start_signal_actor()
    progress = Progress(reporter)
    all_settings = [settings for _, settings in jobs]
    workers = cpus_per_run(execution, all_settings) - execution.cpus_per_trial
    bundle: dict[str, float] = {"CPU": execution.cpus_per_trial}
    if execution.gpus_per_trial:
        bundle["GPU"] = execution.gpus_per_trial
    resources = PlacementGroupFactory([bundle] + [{"CPU": 1}] * workers)
    planned = []
    for path, settings in jobs:
        planned.append({"folder": str(path), "settings": settings})
    trainable = tune.with_parameters(Trial, signals=signals, hang_timeout=execution.hang_timeout)
    tuner = tune.Tuner(
        tune.with_resources(trainable, resources),
        param_space={"job": tune.grid_search(planned)} if searcher is None else {},
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=1 if searcher is None else len(jobs),
            scheduler=scheduler(execution.scheduler, all_settings),
            max_concurrent_trials=execution.max_concurrent or None,
            trial_name_creator=lambda trial: Path(trial.config["job"]["folder"]).name,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name=".tune",
            storage_path=str(folder.path.absolute()),
            stop=progress,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=execution.max_failures),
            callbacks=[progress],
            verbose=0,
        ),
    )
    ended = threading.Event()
    requests: list[str] = []
    errors: list[BaseException] = []

    def fit() -> None:
        try:
            tuner.fit()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    with Interrupts(lambda: requests.append("stop"), lambda: requests.append("save")) as interrupts:
        # In the main thread, Tune would replace these signal handlers.
        threading.Thread(target=fit, daemon=True).start()
        while not ended.wait(0.5) and time.monotonic() <= progress.deadline + PATIENCE:  # Tune itself may take as long
            reporter.beat()
            while requests:
                request = requests.pop(0)
                signals.broadcast.remote(request)
                if request == "stop":
                    progress.request_stop()
    if errors:
        if isinstance(errors[0].__cause__, OutOfMemoryError):  # Tune retries runs that fail in other ways
            raise RunFailure(
                "the machine's memory was full, and Ray ended runs; --resume continues them, "
                "with a smaller --max_concurrent if they filled the memory themselves"
            ) from errors[0]
        raise errors[0]
    return interrupts.exit_code


def start(address: str, execution: Execution, jobs: Sequence[Job], notify: Callable[[str], Any]) -> Execution:
    """Join a cluster or start a private one (address ``local``), and return the execution with ``max_concurrent`` set.

    Report the available resources in one line.
    """
    ray_session.hide_messages()
    per_run = cpus_per_run(execution, [settings for _, settings in jobs])
    if address == "local":
        os.environ.update(ray_session.thread_limits(execution.cpus_per_trial))
        ray_session.start_local(execution.max_concurrent * per_run or count_cpus())
    else:
        variables = ray_session.make_quiet_variables() | ray_session.thread_limits(execution.cpus_per_trial)
        try:
            # Ray itself would retry for minutes if nothing listens at the address.
            host, colon, port = address.rpartition(":")
            if colon and "/" not in host and port.isdigit():
                socket.create_connection((host, int(port)), timeout=10).close()
            runtime = {"env_vars": variables}
            with ray_session.preserve_sigterm():
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env=runtime)
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UsageError(f"no Ray cluster at --address {address} ({reason}); --address local needs none") from None
    found = ray.cluster_resources()
    cpus = int(found.get("CPU", 0))
    gpus = found.get("GPU", 0.0)
    check_room(per_run, execution.gpus_per_trial, cpus, gpus)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(fits(execution, node) for node in nodes):
        raise UsageError(
            f"a run takes {format_count(execution.cpus_per_trial, 'CPU')} and "
            f"{format_count(execution.gpus_per_trial, 'GPU')} of one node (--cpus_per_trial, --gpus_per_trial), and no "
            "node has as many; reduce these flags"
        )
    room = cpus // per_run
    if execution.gpus_per_trial:
        room = min(room, int(gpus / execution.gpus_per_trial))
    at_once = min(execution.max_concurrent or room, room, len(jobs))
    where = f"{format_count(len(nodes), 'node')} at {address}"
    available = f"{format_count(cpus, 'CPU')} and {format_count(gpus, 'GPU')} of {where}"
    notify(f"{available}: {format_count(at_once, 'run')} at a time, {format_count(per_run, 'CPU')} each")
    return replace(execution, max_concurrent=at_once)


def fits(execution: Execution, node: Mapping[str, float]) -> bool:
    """Return whether a node with these resources can have the learner of a run; env runners may be on other nodes."""
    return node.get("CPU", 0) >= execution.cpus_per_trial and node.get("GPU", 0) >= execution.gpus_per_trial
