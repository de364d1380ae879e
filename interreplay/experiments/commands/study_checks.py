"""Checks before a study starts: whether its runs can start, and whether they fit the CPUs, GPUs and memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from interreplay.errors import RejectedRuns, UsageError
from interreplay.experiments.commands import preparation
from interreplay.experiments.commands.preparation import gigabytes
from interreplay.experiments.flags.offline_flags import check_recorded
from interreplay.experiments.flags.training_flags import make_environment
from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.process import machine
from interreplay.experiments.studies.study import TPE, Execution, PlannedRun, Study, StudyFolder, cpus_per_run
from interreplay.learning.algorithms_table import check_actions
from interreplay.runs.run_folder import find_checkpoints
from interreplay.unrolls.mixture import UnrollMix


def check(study: Study, numbers: Iterable[int], here: bool, folder: StudyFolder | None = None) -> list[float]:
    """Make the environment and the empty replay buffer of each kind of run, and find the runs that cannot start.

    `here` is true if they run on this machine, with its files, GPUs and memory. With the study's folder, runs that have
    checkpoints do not need the one that they were forked from.

    Returns:
        The bytes of each run's replay buffer at its end.

    Raises:
        RejectedRuns: Runs cannot start; the error lists each reason with its runs.
    """
    reasons: dict[int, str] = {}
    by_kind: dict[str, str] = {}
    sizes: dict[str, float] = {}
    kinds = []
    for number in numbers:
        run = study.runs[number]
        trial = folder and folder.trial(run)
        if trial and trial.path.is_dir() and trial.resumable():
            run = replace(run, flags=drop_settings(run.flags, {"fork_from"}))
        kind = repr({**run.flags, "seed": 0})
        kinds.append(kind)
        if kind not in by_kind:
            try:
                sizes[kind] = check_run(run, study.execution, here)
                by_kind[kind] = ""
            except UsageError as error:
                by_kind[kind] = str(error)
        if by_kind[kind]:
            reasons[number] = by_kind[kind]
    if reasons:
        raise RejectedRuns(reasons, len(study.runs))
    return [sizes[kind] for kind in kinds]


def check_run(run: PlannedRun, execution: Execution, here: bool) -> float:
    """Check that a run can start, and return the bytes of its replay buffer at its end; arguments as for `check`."""
    settings = run.settings
    device = "cpu"  # a GPU of another machine cannot be used
    if here:
        device = machine.choose_device(settings.device, execution.gpus_per_trial)
        machine.check_device(device)
        if settings.fork_from:  # must exist
            find_checkpoints(Path(settings.fork_from), "--fork_from")
    environment = make_environment(settings)
    check_actions(settings.trainer, settings.env, environment.action_space, flag="--trainers")
    if here and settings.offline_data is not None:
        check_recorded(settings, environment.spaces)
    settings = settings.replace(device=device, offline_data=None)
    source = preparation.make_checked_source(settings, environment)
    if here:
        preparation.check_networks(settings, environment)
        preparation.check_memory(settings, environment, source)
    size = preparation.replay_bytes(settings, environment, source)
    if source is None or isinstance(source, UnrollMix):
        return size
    return size * min(1.0, settings.total_env_steps / settings.buffer_size)


def check_execution(study: Study, only_run: int | None, address: str) -> None:
    """Reject a search, and settings of shared processes, that cannot be executed on the cluster at an address.

    `only_run` is the number of the run if a single one is requested.
    """
    execution = study.execution
    if only_run is not None and execution.searcher == TPE:
        raise UsageError(
            f"--run {only_run}: --searcher {TPE} draws one run after another; leave --run out, "
            "and use submit.py concurrent instead of single"
        )
    if execution.scheduler != "fifo" and len({run.env for run in study.runs}) > 1:
        raise UsageError(f"--scheduler {execution.scheduler} compares returns, so it supports one environment only")
    if not execution.together:
        return
    if address != "local":
        raise UsageError(f"--together runs on this machine; expected --address local instead of {address}")
    if execution.scheduler != "fifo" or execution.searcher == TPE:
        raise UsageError("--together runs all runs at once; expected --scheduler fifo and --searcher random")
    for run in study.runs:
        if run.settings.num_workers:
            raise UsageError(f"--num_workers is {run.settings.num_workers}; expected 0 with --together")


def check_resources(
    execution: Execution, runs: Iterable[PlannedRun], alone: bool, job: tuple[int | None, int | None] | None = None
) -> None:
    """Reject runs that would fail, or wait forever, because of too few CPUs or GPUs.

    They are this machine's, or those of a `job`, None if unknown. `alone` is true if a run has its process for itself,
    as with ``--run``.
    """
    cpus, gpus = job or (machine.count_cpus(), machine.count_gpus())
    settings = [run.settings for run in runs]
    for each in settings:
        if cpus is not None:
            machine.check_workers(each.num_workers, cpus)
        device = machine.choose_device(each.device, execution.gpus_per_trial)
        if device != "cpu" and gpus == 0:
            raise UsageError(f"--device {device}: the job has no GPU; request one, or use --device cpu")
    if not alone:
        needed = cpus_per_run(execution, map(vars, settings))
        if cpus is None:
            cpus = needed
        elif job is None:  # an explicit max_concurrent may exceed the CPUs
            cpus = max(cpus, execution.max_concurrent * needed)
        machine.check_room(needed, execution.gpus_per_trial, cpus, execution.gpus_per_trial if gpus is None else gpus)


def check_memory(execution: Execution, runs: Iterable[PlannedRun], sizes: Sequence[float]) -> None:
    """Reject runs whose replay buffers, of `sizes` bytes, do not fit into this machine's memory at the same time."""
    at_once = len(sizes)
    if not execution.together:
        needed = cpus_per_run(execution, [vars(run.settings) for run in runs])
        at_once = execution.max_concurrent or max(1, machine.count_cpus() // needed)
    largest = sorted(sizes, reverse=True)[:at_once]
    free = machine.free_memory()
    if sum(largest) <= free:
        return
    fitting = max(1, sum(total <= free for total in itertools.accumulate(largest)))
    fix = f"--max_concurrent {fitting} or a smaller --buffer_size"
    if execution.together:
        fix = "fewer runs or a smaller --buffer_size, because --together trains all runs at once"
    raise UsageError(
        f"the replay buffers of {machine.format_count(len(largest), 'run')} at a time take "
        f"{gigabytes(sum(largest))} GB, {gigabytes(free)} GB are free; expected {fix}"
    )
