"""The runs of a study through Ray Tune: as many at a time as there is room for, each in a process of its own."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.schedulers import TrialScheduler

from interreplay.errors import UsageError
from interreplay.experiments.process.machine import check_room, counted, own_cpus
from interreplay.experiments.process.signals import Interrupts
from interreplay.experiments.studies.study import Execution, cpus_per_run
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.experiments.tune.callbacks import Progress, StopWhenSaved, Tell
from interreplay.experiments.tune.sequential_search import SequentialSearch
from interreplay.experiments.tune.signal_actor import start_signal_actor
from interreplay.experiments.tune.trainable import Trial
from interreplay.rllib import ray_session

Job = tuple[Path, dict[str, Any]]
_TUNE = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run writes its own results
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # what is done is read from the runs' folders, not from Tune's state
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a run has no score before its first evaluation
    "RAY_AIR_NEW_OUTPUT": "0",
}


def run_trials(
    jobs: Sequence[Job],
    execution: Execution,
    folder: StudyFolder,
    tell: Tell,
    beat: Callable[[], Any],
    scheduler: TrialScheduler | None = None,
    searcher: SequentialSearch | None = None,
) -> int:
    """Run them all, or until a signal.

    SIGUSR1 lets every running trial save and go on, SIGTERM and SIGINT save and stop.

    Args:
        jobs: Folder and settings of every run, in the order in which they are started.
        execution: How.
        folder: The study's; Tune keeps its own files in it, too.
        tell: Told what happens: ``start``, ``result``, ``retry``, ``fail`` or ``end``, of which run, and its figures.
        beat: Called twice a second.
        scheduler: Ends runs early; None lets them all run to their ends.
        searcher: Draws settings of one run after another; None takes those of the jobs.

    Returns:
        The exit code that a signal asks for, 0 without one.
    """
    os.environ.update(_TUNE)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # its tracebacks are in the runs' error.txt
    signals, progress = start_signal_actor(), Progress(tell)
    ending = StopWhenSaved(progress)
    tuner = _tuner(jobs, execution, folder, signals, ending, progress, scheduler, searcher)
    ended, requests, errors = threading.Event(), list[str](), list[BaseException]()

    def fit() -> None:
        try:
            tuner.fit()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    with Interrupts(lambda: requests.append("stop"), lambda: requests.append("save")) as interrupts:
        # Tune would put its own signal handlers in the place of these, were it in this thread.
        threading.Thread(target=fit, daemon=True).start()
        while not ended.wait(0.5) and not ending.overdue:
            beat()
            while requests:
                signals.broadcast.remote(request := requests.pop(0))
                if request == "stop":
                    ending.request()
    if errors:
        raise errors[0]
    return interrupts.exit_code if interrupts.received else 0


def _tuner(
    jobs: Sequence[Job],
    execution: Execution,
    folder: StudyFolder,
    signals: Any,
    ending: StopWhenSaved,
    progress: Progress,
    scheduler: TrialScheduler | None,
    searcher: SequentialSearch | None,
) -> tune.Tuner:
    workers = max(settings["num_workers"] for _, settings in jobs)
    own = {"CPU": execution.cpus_per_trial} | ({"GPU": execution.gpus_per_trial} if execution.gpus_per_trial else {})
    resources = PlacementGroupFactory([own, *({"CPU": 1} for _ in range(workers))])
    how = {"hang_timeout": execution.hang_timeout, "uri": folder.store.uri if folder.store else ""}
    configs = [{"folder": str(path), "settings": settings} | how for path, settings in jobs]
    if searcher is not None:
        searcher.configured = how
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(Trial, signals=signals), resources),
        param_space={"job": tune.grid_search(configs)} if searcher is None else {},
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=1 if searcher is None else len(jobs),
            scheduler=scheduler,
            max_concurrent_trials=execution.max_concurrent or None,
            trial_name_creator=lambda trial: Path(trial.config["job"]["folder"]).name,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name=".tune",
            storage_path=str(folder.path.absolute()),
            stop=ending,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=execution.max_failures),
            callbacks=[progress],
            verbose=0,
        ),
    )


def start(address: str, execution: Execution, jobs: Sequence[Job], say: Callable[[str], Any]) -> Execution:
    """Join a cluster, or start a Ray of this process, and find out how many runs it has room for.

    Args:
        address: Of a cluster, or ``"local"`` for one of its own that nobody else can join.
        execution: How the runs are to be carried out.
        jobs: The runs.
        say: Told what there is.

    Returns:
        ``execution`` with ``max_concurrent`` filled in.

    Raises:
        UsageError: There is no cluster, or no room for a single run.
    """
    ray_session.quiet()
    per_run = cpus_per_run(execution, [settings for _, settings in jobs])
    if address == "local":
        os.environ.update(ray_session.thread_limits(execution.cpus_per_trial))
        ray_session.start_local(execution.max_concurrent * per_run or own_cpus())
    else:
        _join(address, execution)
    found = ray.cluster_resources()
    cpus, gpus = int(found.get("CPU", 0)), found.get("GPU", 0.0)
    check_room(per_run, execution.gpus_per_trial, cpus, gpus)
    room = cpus // per_run
    if execution.gpus_per_trial:
        room = min(room, int(gpus / execution.gpus_per_trial))
    at_once = min(execution.max_concurrent or room, room, len(jobs))
    where = "this machine" if address == "local" else f"{sum(n['Alive'] for n in ray.nodes())} nodes at {address}"
    there = f"{counted(cpus, 'CPU')} and {counted(gpus, 'GPU')} of {where}"
    say(f"{there}: {counted(at_once, 'run')} at a time, {counted(per_run, 'CPU')} each")
    return replace(execution, max_concurrent=at_once)


def _join(address: str, execution: Execution) -> None:
    variables = ray_session.quieting() | ray_session.thread_limits(execution.cpus_per_trial)
    try:
        _check_listening(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": variables})
    except (OSError, RuntimeError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        raise UsageError(f"no Ray cluster at --address {address} ({message}); --address local takes none") from None


def _check_listening(address: str) -> None:
    """Raise OSError where nobody listens; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
