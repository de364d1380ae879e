"""Train an agent: flags, RLlib configuration, training and summary. ``--help`` lists the flags."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from interreplay import errors
from interreplay.experiments.commands.preparation import prepare
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.replay_flags import list_buffers, shorten_name
from interreplay.experiments.flags.run_flags import DEFAULTS
from interreplay.experiments.flags.training_flags import make_parser
from interreplay.experiments.process.hang_watch import HangWatch
from interreplay.experiments.process.outcome import GREEN, colored, format_program, program, wrap_line
from interreplay.experiments.process.progress import Reporter
from interreplay.experiments.process.signals import RESUMABLE, Interrupts
from interreplay.runs.checkpoints import best_checkpoints, find_best
from interreplay.runs.resume import find_run_folder, read_unwritten, record_changed_rates, reopen
from interreplay.runs.run_folder import STATUS, RunFolder, ensure_writable, find_checkpoints
from interreplay.runs.state_files.disk import hold

if TYPE_CHECKING:
    from interreplay.experiments.training.train_loop import Training

PATIENCE = 10.0
"""Seconds to wait for another process that has locked the run, such as one that is saving and exiting."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a training job.

    Returns:
        The exit code: 0, 1 when the run failed, 2 after an error that the user can fix, 75 after SIGTERM or
        ``max_time``, 130 after Ctrl-C.
    """
    return make_parser().run(act, argv)


def act(given: Mapping[str, Any]) -> int:
    """Run the command; return the exit code."""
    if listed := requested_list(given):
        print(listed)
        return 0
    for name in ("best", "recover"):
        if given.get(name) and "resume" not in given:
            raise errors.UsageError(f"--{name} requires --resume RUN")
    checkpoints = choose_checkpoints(given)
    home = None
    if checkpoints:
        home = find_run_folder(checkpoints[0], given.get("output_dir"))
    if home is None:
        return run(given, checkpoints, None)
    if (home / STATUS).exists():
        again = f"{format_program('study')} --resume {shlex.quote(str(home.parent))}"
        raise errors.UsageError(
            f"{home} is a run of the study {home.parent}; continue it with: {again}; "
            "--output_dir starts a separate run from it"
        )
    ensure_writable(home)
    with hold(home, "a run", PATIENCE):
        return run(given, choose_checkpoints(given), home)  # read again now that the folder is locked


def choose_checkpoints(given: Mapping[str, Any]) -> list[Path]:
    """Return the checkpoints that ``--resume`` may start from, the preferred one first; none for a new run."""
    if "resume" not in given:
        return []
    if given.get("best"):
        return [find_best(given["resume"])]
    return find_checkpoints(given["resume"])


def requested_list(given: Mapping[str, Any]) -> str:
    """Return the list that a flag requests, or ""."""
    if given.get("list_buffers"):
        return list_buffers()
    if given.get("list_presets"):
        return presets.list_presets()
    return ""


def run(given: Mapping[str, Any], checkpoints: Sequence[Path], home: Path | None) -> int:
    """Start or resume a run, and train to its end; return the exit code.

    The folder `home` is locked by this process. Arguments are as for `prepare`.
    """
    ready = prepare(given, checkpoints, home)
    settings = ready.settings
    for line in ready.lines:
        print(wrap_line(line, sys.stdout), flush=True)

    # Importing Ray takes seconds, so it follows everything that can be rejected without it.
    from interreplay.experiments.training.start import start
    from interreplay.rllib import ray_session

    ray_session.prepare_host(settings.threads, settings.num_workers, settings.device)
    logs: list[Any] = []
    if settings.wandb or settings.mlflow:
        from interreplay.experiments.training.trackers import trackers

        logs = trackers(settings.wandb, settings.mlflow, resume="allow")
    recovers = given.get("recover", False)
    algo, checkpoint = start(settings, checkpoints, print, source=ready.source, recovers=recovers)
    with contextlib.ExitStack() as exits:
        exits.callback(algo.stop)
        if checkpoint:
            settings = settings.replace(**record_changed_rates(settings, checkpoint, algo.env_steps, print))
        if home and checkpoint:
            failed = algo.evaluation_failed
            folder = reopen(home, checkpoint, algo.env_steps, settings, notify=print, evaluation_failed=failed)
        else:
            folder = RunFolder.create(Path(settings.output_dir), run_name(settings))
            exits.enter_context(hold(folder.path, "a run", PATIENCE))
        timeout = given.get("hang_timeout", DEFAULTS["hang_timeout"])
        return train(algo, settings, folder, trackers=logs, hang_timeout=timeout, missing=read_unwritten(checkpoint))


def run_name(settings: SimpleNamespace) -> str:
    """Return the prefix of the run folder's name: algorithm, environment, replay method and parts, preset, seed."""
    parts = [shorten_name(settings.buffer)]
    for value in settings.buffer_args.values():
        if isinstance(value, Mapping) and "type" in value:
            parts.append(shorten_name(str(value["type"])))
    if Path(settings.preset).suffix or not presets.load(settings.preset).automatic:
        parts.append(Path(settings.preset).stem)
    return f"{shorten_name(settings.trainer)}_{settings.env}_{'-'.join(parts)}_s{settings.seed}"


def train(
    algo: Any,
    settings: SimpleNamespace,
    folder: RunFolder,
    trackers: Sequence[Any],
    hang_timeout: float,
    missing: dict[str, Any] | None,
) -> int:
    """Train to the end or until a signal, writing results and checkpoints; return the exit code.

    The folder is locked by this process. `hang_timeout` is as for `HangWatch`; `missing` is a row of results that could
    not be written because of a full disk.
    """
    from interreplay.experiments.training.train_loop import Training

    again = f"continue with: {program()} --resume {shlex.quote(str(folder.path))}"
    reporter = Reporter(settings, algo.env_steps, sys.stdout, folder.best_evaluation())
    training = Training(
        algo, settings, folder, progress=reporter.progress, trackers=trackers, notify=reporter.note, unwritten=missing
    )

    def report_hang(line: str) -> None:
        with contextlib.suppress(OSError):  # not to the streams: a thread that hangs may hold their locks
            os.write(2, f"{os.path.basename(sys.argv[0])}: error: {line}; {again}\n".encode())

    watch = HangWatch(folder.path, hang_timeout, training.pulse, report_hang)
    try:
        with Interrupts(training.stop, training.requests.save) as interrupts, watch:
            for result in training.iterations():
                reporter.iteration(algo.env_steps, result)
    except BaseException as error:
        if errors.is_request_to_end(error):
            raise
        rescue(error, training, again)
        raise
    finally:
        reporter.close()
    summary = reporter.summary(algo.env_steps, folder.best_evaluation())
    if training.complete:
        summary = colored(summary, GREEN, sys.stdout)
    print(summary)
    saved = f"newest checkpoint {folder.checkpoints()[0].name}"
    if best := best_checkpoints(folder.path):
        saved = f"{saved}, best {best[0].name}"
    print(f"results in {folder.path}, {saved}")
    offline = sorted(folder.path.glob("wandb/offline-run-*"))
    if settings.wandb and offline:
        runs = shlex.join(map(str, offline))
        print(f"Weights & Biases: the run is in {folder.path / 'wandb'}; upload it with: wandb sync {runs}")
    if training.complete:
        if training.stop_reason and algo.env_steps < settings.total_env_steps:
            print(f"stopped before {settings.total_env_steps:,} {reporter.unit}: {training.stop_reason}")
        return 0
    if training.requests.timed_out:
        print(f"--max_time {settings.max_time} has elapsed; {again}")
        return RESUMABLE
    print(f"stopped early; {again}")
    return interrupts.exit_code


def rescue(error: BaseException, training: Training, again: str) -> None:
    """Save what is intact after an error, and raise a one-line error in its place; a bug keeps its traceback.

    Raises:
        UsageError: After non-finite values, or an invalid result of a user's part or function.
        RunFailure: After an error of the environment, the loss of a runner, or diverged training.
    """
    if isinstance(error, errors.NonFiniteError | errors.PartError):  # the checkpoint may be right before the same error
        raise errors.UsageError(f"{error}; {training.save_after(error)}") from error
    if isinstance(error, errors.UsageError):
        return
    # Ray reports runners that no longer respond; the reason is reported below.
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    report = training.folder.note_error(error)
    saved = training.save_after(error)
    if not saved:
        return
    reason = str(error)
    if not isinstance(error, Exception):
        reason = f"the run was ended by {errors.describe_error(error)}"
    line = f"{reason}; {saved}; {report} holds the traceback"
    if not isinstance(error, errors.TrainingDiverged):  # a resumed run would diverge again
        line = f"{line}; {again}"
    raise errors.RunFailure(line) from error
