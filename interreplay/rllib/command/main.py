"""The command `rllib`: trains and evaluates any algorithm, ours and those that come with RLlib.

rllib train --run SAC --env Pendulum-v1 --stop '{"env_steps": 20000}'
rllib train -f tuned_example.yaml
rllib evaluate results/default/SAC_.../checkpoint_000000 --run SAC --episodes 10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import TuneError

from interreplay.commandline.flags.evaluate_flags import add_evaluate_flags, check_evaluate
from interreplay.commandline.flags.parser import OneLineParser, underscored
from interreplay.commandline.flags.values import whole
from interreplay.errors import UsageError
from interreplay.rllib import ray_session
from interreplay.rllib.command.algorithm_names import names
from interreplay.rllib.command.experiments import Experiment, read_file, read_settings
from interreplay.rllib.evaluation.report import evaluate
from interreplay.rllib.ray_session import start_ray
from interreplay.rllib.run.trackers import trackers
from interreplay.runs import outcome
from interreplay.runs.run_folder import ensure_writable


def make_parser() -> argparse.ArgumentParser:
    """The parser of both subcommands."""
    parser = OneLineParser(prog="rllib", description="Train and evaluate RLlib algorithms.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train an algorithm", allow_abbrev=False)
    train.add_argument("--run", help=f"algorithm: {', '.join(names())}")
    train.add_argument("--env", help="Gymnasium id")
    train.add_argument(
        "-f", "--config_file", type=Path, help="YAML file of experiments: {name: {run, env, stop, config}}"
    )
    train.add_argument("--stop", default="{}", help="results at which to end, JSON or YAML: '{\"env_steps\": 100000}'")
    train.add_argument("--config", default="{}", help="settings of the algorithm, JSON or YAML or a file of either")
    train.add_argument("--checkpoint_freq", type=whole(0), default=0, help="iterations between checkpoints")
    train.add_argument("--num_samples", type=whole(1), default=1, help="how often to run it")
    train.add_argument("--experiment_name", default="default", help="folder of the results within --local_dir")
    train.add_argument("--local_dir", type=Path, default=Path("results"), help="where results go")
    train.add_argument("--num_cpus", type=whole(1), default=None, help="processors to use; all by default")
    train.add_argument("--resume", action="store_true", help="go on with the experiment of this name")
    train.add_argument("--wandb", metavar="PROJECT", help="also log to this project of Weights & Biases")
    train.add_argument("--mlflow", metavar="[URI/]EXPERIMENT", help="also log to this experiment of MLflow")
    train.add_argument("--verbose", type=int, choices=(0, 1, 2), default=1, help="how much Ray Tune says")
    evaluate = commands.add_parser("evaluate", help="let a trained policy act, without exploring", allow_abbrev=False)
    add_evaluate_flags(evaluate)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The exit code: 0, 1 when a trial failed, 2 after an error that the user can mend, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else argv
    stopped = "stopped; go on with the same command and --resume"
    return outcome.run("rllib", lambda: act(make_parser().parse_args([underscored(word) for word in words])), stopped)


def act(given: argparse.Namespace) -> int:
    """Carry out the subcommand; return the exit code."""
    if given.command == "train":
        return train(given)
    check_evaluate(given)
    evaluate(given, say)
    return 0


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def train(given: argparse.Namespace) -> int:
    """`rllib train`: one experiment after the other, each with its trials side by side."""
    if bool(given.config_file) == bool(given.run or given.env) or bool(given.run) != bool(given.env):
        raise UsageError("expected --run and --env, or -f with a file of experiments")
    ray_session.quiet()
    experiments = read_file(given.config_file) if given.config_file else [_experiment(given)]
    if given.resume:
        _check_resumable(given.local_dir, experiments)
    ensure_writable(given.local_dir)
    logs = lambda: trackers(given.wandb, given.mlflow)  # noqa: E731 - each experiment has its own
    tuners = [experiment.tuner(given.local_dir, given.verbose, say, logs()) for experiment in experiments]
    start_ray(given.num_cpus)
    failed = False
    for experiment, tuner in zip(experiments, tuners, strict=True):
        results = (_restored(given.local_dir / experiment.name, tuner) if given.resume else tuner).fit()
        failed |= results.num_errors > 0
        for result in results:
            say(_summary(result))
        if _interrupted(results):
            raise KeyboardInterrupt
    return int(failed)


def _interrupted(results: tune.ResultGrid) -> bool:
    """Whether Tune, which takes the first Ctrl-C for itself and calls what it stops terminated, ended too early."""
    return any(trial.status != "ERROR" and not _ended(trial) for trial in results._experiment_analysis.trials)


def _ended(trial: Any) -> bool:
    """Whether a trial came to where it was to stop."""
    result = trial.last_result or {}
    try:
        return bool(result) and bool(result.get("done") or trial.should_stop(result))
    except TuneError:  # the result has no such value yet
        return False


def _experiment(given: argparse.Namespace) -> Experiment:
    return Experiment(
        given.experiment_name,
        given.run,
        given.env,
        read_settings(given.stop),
        read_settings(given.config),
        given.num_samples,
        given.checkpoint_freq,
    )


def _check_resumable(local_dir: Path, experiments: Sequence[Experiment]) -> None:
    for folder in (local_dir / experiment.name for experiment in experiments):
        if not tune.Tuner.can_restore(str(folder.absolute())):
            raise UsageError(f"{folder} holds no experiment to go on with; leave --resume out to begin one")


def _restored(folder: Path, tuner: tune.Tuner) -> tune.Tuner:
    trainable = tuner._local_tuner.trainable
    path = str(folder.absolute())
    return tune.Tuner.restore(path, trainable=trainable, resume_unfinished=True, restart_errored=True)


def _summary(result: tune.Result) -> str:
    if result.error is not None:
        return f"failed: {result.path}: {' '.join(str(result.error).split())[-300:]}"
    metrics = result.metrics or {}
    steps = metrics.get("num_env_steps_sampled_lifetime", 0)
    reached = (metrics.get("env_runners") or {}).get("episode_return_mean", float("nan"))
    kept = f"; checkpoint {result.checkpoint.path}" if result.checkpoint else ""
    return f"{int(steps):,} steps, return {reached:.1f}{kept}"


if __name__ == "__main__":
    sys.exit(main())
