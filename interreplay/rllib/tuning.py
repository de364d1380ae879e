"""The runs of a study through Ray Tune: as many at a time as there is room for, each in a process of its own."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory

from interreplay.commandline import UsageError
from interreplay.commandline.interrupts import Interrupts
from interreplay.rllib import job
from interreplay.rllib.bell import Bell, listen
from interreplay.rllib.trial import HopelessError, TrialRun
from interreplay.studies.study import Execution
from interreplay.studies.trial_folder import CRASHED, FAILED, TrialFolder

Job = tuple[Path, dict[str, Any]]
Tell = Callable[[str, str, dict[str, Any]], Any]
PATIENCE = 60.0
_TUNE = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run writes its own results
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # what is done is read from the runs' folders, not from Tune's state
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}


class Trial(tune.Trainable):
    """A `TrialRun` in a process of Ray's; an iteration of the run is one of Tune's."""

    def setup(self, config: dict[str, Any], bell: Any = None) -> None:
        """Takes the run's folder; ``config["job"]`` holds ``folder``, ``settings`` and ``hang_timeout``."""
        config = config["job"]
        job.quiet()
        threads = config["settings"]["threads"]
        torch.set_num_threads(threads)
        self._run = TrialRun(Path(config["folder"]), config["settings"], config["hang_timeout"])
        listen(bell, self._run.ask)
        self._results = self._run.results()
        self._entered = False
        self._last: dict[str, Any] = {"env_steps": 0, "return": float("nan"), "evaluation_return": float("nan")}

    def step(self) -> dict[str, Any]:
        """One iteration of the run; the last one says so with ``done``."""
        try:
            if not self._entered:  # here and not in setup, after whose failures Tune would not try again
                self._run.__enter__()
                self._entered = True
            self._last = next(self._results)
        except (StopIteration, HopelessError):
            self._leave()
            self._last |= {"done": True, "env_steps": self._run.folder.status()["env_steps"]}
        except BaseException:
            self._leave()
            raise
        return self._last | {"state": self._run.over}

    def _leave(self) -> None:
        if self._entered:
            self._run.__exit__()
        self._entered = False

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Nothing: a run saves by itself, into its own folder."""
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing, likewise."""

    def cleanup(self) -> None:
        """Called at the end, also where a scheduler ends the trial before its time."""
        if self._entered:
            self._results.close()
            self._run.ended_from_outside()
            self._leave()


class Progress(tune.Callback):
    """Passes what happens to trials on to whoever reports it, and knows which of them run."""

    def __init__(self, tell: Tell):
        self._tell = tell
        self.running: set[str] = set()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.running.add(str(trial))
        self._tell("start", str(trial), {})

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        self._tell("result", str(trial), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("end", trial, trial.last_result or {})

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("retry", trial, {"reason": _reason(trial)})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("fail", trial, {"reason": _reason(trial)})

    def _leave(self, event: str, trial: Any, figures: dict[str, Any]) -> None:
        self.running.discard(str(trial))
        self._tell(event, str(trial), figures)


def _reason(trial: Any) -> str:
    """Why a trial failed; where its process could not say so itself, it is noted here."""
    folder = TrialFolder(Path(trial.config["job"]["folder"]))
    status = folder.status()
    if status["state"] in (CRASHED, FAILED):
        return status["failures"][-1]
    lines = Path(trial.error_file).read_text().split("\n") if trial.error_file else []
    told = [line.strip() for line in lines if line.strip()]
    cause = next((line for line in reversed(told) if "exit" in line.lower()), told[-1] if told else "")
    return folder.note_failure(f"its process ended: {cause}")["failures"][-1]


class _Quit(tune.Stopper):
    """Ends Tune's loop when the trials that ran as that was wished for have saved, or have had their time for it."""

    def __init__(self, progress: Progress):
        self._progress, self._awaited, self._deadline = progress, set[str](), math.inf

    def wish(self) -> None:
        if self._deadline == math.inf:
            self._awaited, self._deadline = set(self._progress.running), time.monotonic() + PATIENCE

    @property
    def overdue(self) -> bool:
        """Whether even Tune had its time."""
        return time.monotonic() > self._deadline + PATIENCE

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        waited = not self._awaited & self._progress.running or time.monotonic() > self._deadline
        return self._deadline < math.inf and waited


def run_trials(
    jobs: Sequence[Job], execution: Execution, state_folder: Path, tell: Tell, beat: Callable[[], Any]
) -> int:
    """Runs them all, or until a signal.

    SIGUSR1 lets every running trial save and go on, SIGTERM and SIGINT save and stop.

    Args:
        jobs: Folder and settings of every run, in the order in which they are started.
        execution: How.
        state_folder: Where Tune keeps its own files.
        tell: Told what happens: ``start``, ``result``, ``retry``, ``fail`` or ``end``, of which run, and its figures.
        beat: Called twice a second.

    Returns:
        The exit code that a signal asks for, 0 without one.
    """
    os.environ.update(_TUNE)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # its tracebacks are in the runs' error.txt
    bell, progress = ray.remote(num_cpus=0)(Bell).remote(), Progress(tell)
    ending = _Quit(progress)
    tuner = _tuner(jobs, execution, state_folder, bell, ending, progress)
    ended, wishes, errors = threading.Event(), list[str](), list[BaseException]()

    def fit() -> None:
        try:
            tuner.fit()
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    with Interrupts(lambda: wishes.append("stop"), lambda: wishes.append("save")) as interrupts:
        # Tune would put its own signal handlers in the place of these, were it in this thread.
        threading.Thread(target=fit, daemon=True).start()
        while not ended.wait(0.5) and not ending.overdue:
            beat()
            while wishes:
                bell.ring.remote(wish := wishes.pop(0))
                if wish == "stop":
                    ending.wish()
    if errors:
        raise errors[0]
    return interrupts.exit_code if interrupts.received else 0


def _tuner(
    jobs: Sequence[Job], execution: Execution, state_folder: Path, bell: Any, ending: _Quit, progress: Progress
) -> tune.Tuner:
    workers = max(settings["num_workers"] for _, settings in jobs)
    own = {"CPU": execution.cpus_per_trial} | ({"GPU": execution.gpus_per_trial} if execution.gpus_per_trial else {})
    resources = PlacementGroupFactory([own, *({"CPU": 1} for _ in range(workers))])
    configs = [{"folder": str(f), "settings": s, "hang_timeout": execution.hang_timeout} for f, s in jobs]
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(Trial, bell=bell), resources),
        param_space={"job": tune.grid_search(configs)},
        tune_config=tune.TuneConfig(
            max_concurrent_trials=execution.max_concurrent or None,
            trial_name_creator=lambda trial: Path(trial.config["job"]["folder"]).name,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name=state_folder.name,
            storage_path=str(state_folder.parent),
            stop=ending,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=execution.max_failures),
            callbacks=[progress],
            verbose=0,
        ),
    )


def start(address: str, execution: Execution, jobs: Sequence[Job], say: Callable[[str], Any]) -> Execution:
    """Joins a cluster, or starts a Ray of this process, and finds out how many runs it has room for.

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
    job.quiet()
    per_run = execution.cpus_per_trial + max(settings["num_workers"] for _, settings in jobs)
    if address == "local":
        os.environ.update(job.thread_limits(execution.cpus_per_trial))
        job.start_local(execution.max_concurrent * per_run or own_cpus())
    else:
        _join(address, execution)
    found = ray.cluster_resources()
    cpus, gpus = int(found.get("CPU", 0)), found.get("GPU", 0.0)
    room = cpus // per_run
    if execution.gpus_per_trial:
        room = min(room, int(gpus / execution.gpus_per_trial))
    if not room:
        raise UsageError(
            f"a run takes {per_run} CPUs and {execution.gpus_per_trial:g} GPUs; there are {cpus} and {gpus:g}; "
            "ask for fewer with --cpus_per_trial, --gpus_per_trial and --num_workers"
        )
    at_once = min(execution.max_concurrent or room, room, len(jobs))
    where = "this machine" if address == "local" else f"{sum(n['Alive'] for n in ray.nodes())} nodes at {address}"
    say(f"{cpus} CPUs and {gpus:g} GPUs of {where}: {at_once} runs at a time, {per_run} CPUs each")
    return replace(execution, max_concurrent=at_once)


def _join(address: str, execution: Execution) -> None:
    variables = job.quieting() | job.thread_limits(execution.cpus_per_trial)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": variables})
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"no Ray cluster at --address {address}: {' '.join(str(error).split())[:300]}") from None


def own_cpus() -> int:
    """CPUs that this process may run on; those of its job where a scheduler says so."""
    return int(os.environ.get("SLURM_CPUS_PER_TASK") or len(os.sched_getaffinity(0)))
