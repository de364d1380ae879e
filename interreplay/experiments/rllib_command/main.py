"""The command `rllib`: trains and evaluates our algorithms and RLlib's own.

rllib train --run SAC --env Pendulum-v1 --stop '{"env_steps": 20000}'
rllib train -f tuned_example.yaml
rllib evaluate results/default/SAC_.../checkpoint_000000 --run SAC --episodes 10
"""

from __future__ import annotations

import argparse
import csv
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from ray import tune
from ray.tune.logger import CSVLoggerCallback
from ray.tune.result import EXPR_PROGRESS_FILE, TRAINING_ITERATION

from interreplay.errors import UsageError, describe_error
from interreplay.experiments.commands import evaluate
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.flags.values import read_nonempty
from interreplay.experiments.process.machine import count_cpus, count_gpus, format_count
from interreplay.experiments.process.outcome import write_line
from interreplay.experiments.process.progress import format_return
from interreplay.experiments.process.signals import Interrupts
from interreplay.experiments.rllib_command.experiments import Experiment, names, read_file, read_settings
from interreplay.experiments.studies.study import TrialFolder
from interreplay.experiments.training.trackers import trackers
from interreplay.learning.setting_fields import WholeNumber
from interreplay.rllib import ray_session
from interreplay.rllib.ray_session import start_ray
from interreplay.runs.results.reader import mean_return
from interreplay.runs.run_folder import check_name, ensure_writable

SECONDS_BETWEEN_LINES = 5.0


class ProgressTable(tune.Callback):
    """Prints a line for each trial's newest result, every few seconds."""

    def __init__(self, report: Callable[[str], object], seconds: float = SECONDS_BETWEEN_LINES):
        self._report = report
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        now = time.monotonic()
        before = self._last.get(trial.trial_id)
        if before is not None and now - before < self._seconds and not result.get("done"):
            return
        if not self._last:
            self._report(f"{'trial':<40} {'iteration':>9} {'env steps':>12} {'return':>10} {'seconds':>8}")
        self._last[trial.trial_id] = now
        reached = format_return(mean_return(result))
        steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        seconds = f"{result.get('time_total_s', 0):,.0f}"
        self._report(f"{trial!s:<40} {result.get('training_iteration', 0):>9} {steps:>12,} {reached:>10} {seconds:>8}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._report(f"{trial} failed; {trial.storage.trial_fs_path}/error.txt holds the traceback")


class ResultTable(CSVLoggerCallback):
    """Tune's ``progress.csv``. A resumed trial keeps its columns; Tune would write those of its next result."""

    def _setup_trial(self, trial: Any) -> None:
        super()._setup_trial(trial)
        if self._trial_continue[trial]:
            with Path(trial.local_path, EXPR_PROGRESS_FILE).open(newline="") as table:
                header = next(csv.reader(table))
            self._trial_csv[trial] = csv.DictWriter(self._trial_files[trial], header)


class SaveOnSignal(tune.Callback):
    """Saves every running trial after its current iteration, then continues or ends Tune's run resumably.

    Tune's own signal handler ends without saving; it is called here once everything is saved.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._asked: set[str] | None = None
        self._saved: set[str] = set()
        self._end: Any = None

    def save(self) -> None:
        """Save all running trials soon; safe in a signal handler."""
        self._asked = set()
        self._saved = set()

    def stop(self) -> None:
        """Save all running trials soon and end; safe in a signal handler."""
        self.stopping = True
        self.save()

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if signal.getsignal(signal.SIGUSR1) != self._handle:  # each experiment of Tune replaces the handler
            self._end = signal.signal(signal.SIGUSR1, self._handle)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        if self._asked is not None and trial.trial_id not in self._asked:
            self._asked.add(trial.trial_id)
            result[tune.result.SHOULD_CHECKPOINT] = True

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: tune.Checkpoint, **info: Any
    ) -> None:
        self._saved.add(trial.trial_id)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self.stopping and all(trial.trial_id in self._saved for trial in trials if trial.status == "RUNNING"):
            self._end(signal.SIGUSR1, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.save()


def make_parser() -> OneLineParser:
    """Return the parser of both subcommands."""
    parser = OneLineParser(prog="rllib", description="Train and evaluate RLlib algorithms.")
    commands = parser.add_subparsers(dest="command")
    train = commands.add_parser("train", help="train an algorithm")
    add = train.add_argument
    add("--run", metavar="ALGORITHM", help=f"algorithm: {', '.join(names())}")
    add("--env", metavar="ENV", help="Gymnasium id")
    text = "YAML file of experiments: {name: {run, env, stop, config}}"
    add("-f", "--config_file", type=Path, metavar="FILE", help=text)
    add("--stop", metavar="SETTINGS", help="results at which to stop, as JSON or YAML: '{\"env_steps\": 100000}'")
    add("--config", metavar="SETTINGS", help="settings of the algorithm, as JSON or YAML or a file of either")
    add("--checkpoint_freq", type=WholeNumber(0), metavar="N", help="iterations between checkpoints (default: 0)")
    add("--num_samples", type=WholeNumber(1), metavar="N", help="number of trials of each experiment (default: 1)")
    add("--experiment_name", metavar="NAME", help="name of the experiment's folder in --output_dir (default: default)")
    text = "folder of all results (default: %(default)s)"
    add("--output_dir", "--local_dir", type=Path, metavar="DIR", default=Path("results"), help=text)
    add("--num_cpus", type=WholeNumber(1), metavar="N", help="CPUs for Ray (default: all, or the request of one trial)")
    add("--resume", action="store_true", help="continue the experiment of this name with its recorded settings")
    add("--wandb", type=read_nonempty, metavar="PROJECT", help="also log to this project of Weights & Biases")
    add("--mlflow", type=read_nonempty, metavar="[URI/]EXPERIMENT", help="also log to this experiment of MLflow")
    text = "0: only the summary; 1: progress; 2: Ray Tune's own output"
    add("--verbose", type=int, choices=(0, 1, 2), default=1, help=text)
    evaluate.add_flags(commands.add_parser("evaluate", help="evaluate a trained policy"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit code: 0, 1 if a trial failed, 2 after an error that the user can fix, 75 after SIGTERM with all
        trials saved, 130 after Ctrl-C.
    """
    return make_parser().run(act, argv)


def act(given: argparse.Namespace) -> int:
    """Run the subcommand; return the exit code."""
    if given.command is None:
        raise UsageError("no subcommand is given; expected train or evaluate")
    if given.command == "train":
        return train(given)
    return evaluate.act(given)


def train(given: argparse.Namespace) -> int:
    """Run `rllib train`: experiments one after another, their trials in parallel; return the exit code."""
    ray_session.hide_messages()
    experiments = read_experiments(given)
    resumed = []
    for each in experiments:
        folder = str((given.output_dir / each.name).absolute())
        resumed.append(given.resume and tune.Tuner.can_restore(folder))
    if given.resume and not any(resumed):
        folder = given.output_dir / experiments[0].name
        raise UsageError(f"{folder} holds no experiment to resume; leave --resume out to begin one")
    available = resources(experiments, given.num_cpus)
    ensure_writable(given.output_dir)
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # Tune's handler would end without saving
    if given.verbose < 2:
        os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # its tracebacks are in the trials' error.txt
    saver = SaveOnSignal()
    tuners = []
    for each in experiments:
        callbacks = [*trackers(given.wandb, given.mlflow), ResultTable(), saver]
        if given.verbose == 1:
            callbacks.append(ProgressTable(write_line))
        tuners.append(each.tuner(given.output_dir, given.verbose // 2, write_line, callbacks))
    start_ray(math.ceil(available["CPU"]))
    failed = False
    with Interrupts(saver.stop, saver.save, unit="iteration") as interrupts:
        for experiment, tuner, again in zip(experiments, tuners, resumed, strict=True):
            folder = given.output_dir / experiment.name
            if again:
                write_line(f"{folder} continues with its recorded settings")
                tuner = restore_tuner(tuner, folder)
            results = tuner.fit()
            failed |= results.num_errors > 0
            for result in results:
                write_line(_summary(result))
            if interrupts.received:
                how = "no checkpoint was made, so the same command with --resume begins again"
                if any(trial.checkpoint for trial in results._experiment_analysis.trials):
                    how = "all trials were saved; continue with the same command and --resume"
                sys.stderr.write(f"rllib: stopped; {how}\n")
                return interrupts.exit_code
    return int(failed)


def restore_tuner(tuner: tune.Tuner, folder: Path) -> tune.Tuner:
    """Return the recorded tuner of an experiment's folder, with the algorithm and the callbacks of a new one."""
    rewind_trials(folder)
    made = tune.Tuner.restore(
        str(folder.absolute()),
        trainable=tuner._local_tuner.trainable,
        resume_unfinished=True,
        resume_errored=True,
    )
    # The restored callbacks are copies, which this process's signal handlers would not reach.
    made._local_tuner._run_config.callbacks = tuner._local_tuner._run_config.callbacks
    return made


def rewind_trials(folder: Path) -> None:
    """Drop the results beyond the last checkpoint of each trial that will run again; Tune would only add to them.

    A trial without a checkpoint begins again in its folder.
    """
    for trial in tune.ExperimentAnalysis(str(folder.absolute())).trials:
        if trial.status == trial.TERMINATED or trial.storage.trial_dir_name is None:  # the trial has never run
            continue
        trial_folder = TrialFolder(Path(trial.storage.trial_fs_path))
        saved = trial.latest_checkpoint_result
        if saved is None:
            trial_folder.clear()
        else:
            trial_folder.rewind(saved.metrics[TRAINING_ITERATION], TRAINING_ITERATION)


def read_experiments(given: argparse.Namespace) -> list[Experiment]:
    """Return the experiments of a file or of the flags; flags override the file, and settings are merged."""
    if given.config_file is None:
        if not given.run or not given.env:
            raise UsageError("expected --run and --env, or -f with a file of experiments")
        experiments = [Experiment("default", given.run, given.env)]
    elif given.run or given.env:
        raise UsageError(f"-f {given.config_file} defines algorithm and environment; leave out --run and --env")
    else:
        experiments = read_file(given.config_file)
    changes: dict[str, Any] = {}
    for name in ("num_samples", "checkpoint_freq"):
        if getattr(given, name) is not None:
            changes[name] = getattr(given, name)
    if given.stop is not None:
        changes["stop"] = read_settings(given.stop)
    if given.experiment_name is not None:
        check_name(given.experiment_name, "--experiment_name")
        if len(experiments) > 1:
            raise UsageError(
                f"--experiment_name {given.experiment_name}: the file names its {len(experiments)} experiments; "
                "leave it out"
            )
        changes["name"] = given.experiment_name
    config = read_settings(given.config or "{}")
    return [replace(each, **changes, config=each.config | config) for each in experiments]


def resources(experiments: Sequence[Experiment], num_cpus: int | None) -> dict[str, float]:
    """Return the CPUs and GPUs of Ray. If Ray is started here, it gets enough CPUs for a trial, shared if necessary."""
    most = {"CPU": 0.0, "GPU": 0.0}
    for each in experiments:
        for kind, number in each.request().items():
            most[kind] = max(most[kind], number)
    available: dict[str, float] = {"CPU": num_cpus or max(most["CPU"], count_cpus()), "GPU": count_gpus()}
    if ray.is_initialized():
        available = {"GPU": 0.0} | ray.cluster_resources()
    for kind, number in most.items():
        if number > available[kind]:
            raise UsageError(
                f"a trial requests {format_count(number, kind)}, available: {format_count(available[kind], kind)}; "
                "reduce num_env_runners, num_gpus_per_learner and similar settings in --config, or raise --num_cpus"
            )
    return available


def _summary(result: tune.Result) -> str:
    if result.error is not None:
        cause = getattr(result.error, "cause", None) or result.error  # Ray's text of it is a traceback
        again = "continues from its checkpoint" if result.checkpoint else "begins again"
        text = describe_error(cause)[-300:]
        return f"failed: {result.path}: {text}; the same command with --resume {again}"
    metrics = result.metrics or {}
    steps = int(metrics.get("num_env_steps_sampled_lifetime", 0))
    line = f"{steps:,} steps, return {format_return(mean_return(metrics))}"
    if result.checkpoint:
        line = f"{line}; checkpoint {result.checkpoint.path}"
    return line


if __name__ == "__main__":
    sys.exit(main())
