"""The main job: flags, an RLlib configuration, training, and a report. ``--help`` lists the flags."""

from __future__ import annotations

import math
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.algorithms_table import ALGORITHMS, check_actions
from interreplay.commandline.flags import presets
from interreplay.commandline.flags.command import ended
from interreplay.commandline.flags.parser import program
from interreplay.commandline.flags.replay_flags import list_buffers, replay_arguments
from interreplay.commandline.flags.run_flags import CATALOGUE
from interreplay.commandline.flags.training_flags import make_parser, preset_told, settings_for, settings_resumed
from interreplay.diagnostics.memory_estimate import columns_of_spaces, estimate
from interreplay.environments.lookup import Environment, find_environment
from interreplay.errors import NonFiniteError, UsageError
from interreplay.runs.machine import free_memory
from interreplay.runs.processors import check_device, check_workers
from interreplay.runs.progress import Reporter
from interreplay.runs.resume import first_settings, home_of, reopen, restore
from interreplay.runs.run_folder import RunFolder, ensure_writable, find_checkpoints
from interreplay.runs.signals import Interrupts


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a training job.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The exit code: 0, 2 after an error that the user can mend, 75 after SIGTERM, 130 after Ctrl-C.
    """
    parser = make_parser()
    given = parser.given(sys.argv[1:] if argv is None else argv)
    return ended(parser.prog, lambda: act(given), "stopped at once; what was saved before is kept")


def act(given: Mapping[str, Any]) -> int:
    """Lists what is asked for, or runs; returns the exit code."""
    if listed := asked_list(given):
        print(listed)
        return 0
    return run(given)


def asked_list(given: Mapping[str, Any]) -> str:
    """Return the list that a flag asks for, "" where none does."""
    if given.get("list_buffers"):
        return list_buffers(CATALOGUE)
    return presets.listed() if given.get("list_presets") else ""


def run(given: Mapping[str, Any]) -> int:
    """Starts or resumes a run and trains to its end.

    Args:
        given: Flags and their values.

    Returns:
        The exit code.
    """
    checkpoints = find_checkpoints(given["resume"]) if "resume" in given else []
    settings = settings_resumed(first_settings(checkpoints), given) if checkpoints else settings_for(given)
    check_device(settings.device)
    if not checkpoints:
        check_workers(settings.num_workers)
    environment = find_environment(settings.env)
    settings.env = environment.name
    told = "" if checkpoints else preset_told(given)
    home = home_of(checkpoints[0], given.get("local_dir")) if checkpoints else None
    settings.local_dir = str(home.parent if home else given.get("local_dir", settings.local_dir))
    memory = check_memory(settings, environment)
    ensure_writable(home or Path(settings.local_dir))
    for line in (environment.note, told, describe(settings), memory):
        if line:
            print(line, flush=True)

    from interreplay.rllib import ray_session
    from interreplay.rllib.run.build import (
        build,  # imports Ray, which takes seconds: only after what can be refused without it
    )
    from interreplay.rllib.run.trackers import trackers

    ray_session.prepare_host(settings.threads, settings.num_workers)
    logs = trackers(settings.wandb, settings.mlflow, resume="allow")
    algo = build(ALGORITHMS[settings.trainer].config, settings)
    try:
        checkpoint = restore(algo, checkpoints, print, bool(given.get("trust_checkpoint"))) if checkpoints else None
        if home and checkpoint:
            folder = reopen(home, checkpoint, algo.env_steps, settings.total_env_steps, print)
        else:
            folder = RunFolder.create(Path(settings.local_dir), run_name(settings))
        return train(algo, settings, folder, logs)
    finally:
        algo.stop()


def run_name(settings: SimpleNamespace) -> str:
    """The beginning of the run folder's name."""
    return f"{settings.trainer}_{settings.env}_{settings.buffer}_s{settings.seed}"


def describe(settings: SimpleNamespace) -> str:
    """The job in half a line."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = "Prioritized"
    shown = ", ".join(f"{name}={value}" for name, value in arguments.items())
    method = f"{settings.buffer}({shown})" if shown else settings.buffer
    return f"{settings.trainer} with {method} on {settings.env}, seed {settings.seed}"


def check_memory(settings: SimpleNamespace, environment: Environment) -> str:
    """Makes the replay buffer, still empty, and compares what it will take with what is free.

    Returns:
        A line that says so.

    Raises:
        UsageError: It cannot be made, cannot store what the environment gives, or will not fit.
    """
    spaces = environment.observation_space, environment.action_space
    check_actions(settings.trainer, settings.env, environment.action_space)
    try:
        buffer = CATALOGUE[settings.buffer](capacity=settings.buffer_size, **replay_arguments(settings))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{settings.buffer}: {error}") from error
    try:
        buffer.check(columns_of_spaces(*spaces))
    except ValueError as error:
        raise UsageError(f"{settings.buffer} cannot store {settings.env}: {error}; its spaces are {spaces}") from error
    need, free = estimate(*spaces, buffer, environment.stacks), free_memory(settings.device)
    line = f"replay buffer of {settings.buffer_size:,} rows: {need / 1e9:.3g} GB when full, {free / 1e9:.3g} GB free"
    if need > free:
        raise UsageError(f"{line}; --buffer_size {int(0.9 * settings.buffer_size * free / need)} would fit")
    return line


def train(algo: Any, settings: SimpleNamespace, folder: RunFolder, trackers: Sequence[Any] = ()) -> int:
    """Trains to the end or to a signal, with results and checkpoints on disk.

    Returns:
        The exit code.
    """
    from interreplay.rllib.run.train_loop import Training

    reporter = Reporter(settings.total_env_steps, algo.env_steps, sys.stdout, settings.quiet)
    training = Training(algo, settings, folder, reporter.progress, trackers, reporter.note)
    try:
        with Interrupts(training.stop, training.save_soon) as interrupts:
            for result in training.iterations():
                reporter.iteration(algo.env_steps, result)
    except NonFiniteError as error:
        checkpoint = training.save(more=1)  # beside the others: it may stand right before the same error
        raise UsageError(f"{error}; what was learned so far is kept in {checkpoint}") from error
    except UsageError:
        raise
    except Exception:
        (folder.path / "error.txt").write_text(traceback.format_exc())
        raise
    finally:
        reporter.close()
    print(reporter.summary(algo.env_steps, max(folder.evaluation_returns(), default=math.nan)))
    print(f"results in {folder.path}, newest checkpoint {folder.checkpoints()[0].name}")
    if training.complete:
        return 0
    print(f"stopped early; go on with: {program()} --resume {shlex.quote(str(folder.path))}")
    return interrupts.exit_code


if __name__ == "__main__":
    sys.exit(main())
