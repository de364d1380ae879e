"""Checks before a study starts: runs that cannot start, and more processors than the machine has."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from interreplay.environments.lookup import Environment, find_environment
from interreplay.errors import RefusedRuns, UsageError
from interreplay.experience.offline_data import open_rows
from interreplay.experiments.commands.preparation import check_memory, check_networks, replay_bytes
from interreplay.experiments.flags.environment_flags import environment_of
from interreplay.experiments.flags.offline_flags import check_recorded
from interreplay.experiments.flags.training_flags import settings_for
from interreplay.experiments.process.machine import (
    check_device,
    check_room,
    check_workers,
    chosen_device,
    own_cpus,
    own_gpus,
)
from interreplay.experiments.studies.study import Execution, PlannedRun, Study, cpus_per_run
from interreplay.learning.algorithms_table import check_actions

PLAIN = str([{}, [], 1])
find = functools.lru_cache(maxsize=None)(find_environment)


def check(study: Study, numbers: Iterable[int], here: bool, memory: bool = True, files: bool = True) -> None:
    """Make the environment and the empty replay method of each kind of run, and find the runs that cannot start.

    Args:
        study: The study.
        numbers: The runs to check.
        here: Whether the runs are to run on this machine, with its GPUs.
        memory: Whether their machine has as much memory as this one.
        files: Whether they will see the files that this machine sees.

    Raises:
        RefusedRuns: With each reason, and the runs that it applies to.
    """
    reasons: dict[int, str] = {}
    by_kind: dict[str, str] = {}
    for number in numbers:
        run = study.runs[number]
        kind = repr({**run.flags, "seed": 0})
        if kind not in by_kind:
            by_kind[kind] = _reason(run, study.execution, here=here, memory=memory, files=files)
        if by_kind[kind]:
            reasons[number] = by_kind[kind]
    if reasons:
        raise RefusedRuns(reasons, len(study.runs))


def _reason(run: PlannedRun, execution: Execution, here: bool, memory: bool, files: bool) -> str:
    """Return why a run cannot start, "" where it can; arguments as for `check`."""
    try:
        settings = settings_for(run.given())
        settings.device = chosen_device(settings.device, execution.gpus_per_trial)
        if here:
            check_device(settings.device)
        elif not own_gpus():
            settings.device = "cpu"  # the machine with the GPU is another one
        environment = found(settings)
        spaces = environment.observation_space, environment.action_space
        check_actions(settings.trainer, settings.env, environment.action_space, flag="--trainers")
        if files:
            check_recorded(settings, functools.partial(open_rows, spaces=spaces))
        if memory:
            check_networks(settings, environment)
            check_memory(settings, environment)
        else:
            replay_bytes(settings, environment)
    except UsageError as error:
        return str(error)
    return ""


def around(settings: SimpleNamespace) -> str:
    """Return what an environment is made with, and what is around it, as text."""
    return str([settings.env_args, list(settings.wrapper), settings.frame_stack])


def found(settings: SimpleNamespace) -> Environment:
    """Return the environment of a run; a plain one is made once."""
    return find(settings.env) if around(settings) == PLAIN else environment_of(vars(settings))


def without_updates(study: Study) -> str:
    """Return a line about the runs that end before learning begins, "" where there are none."""
    settings = [settings_for(run.given()) for run in study.runs]
    idle = [each for each in settings if each.learning_starts >= each.total_env_steps]
    if not idle:
        return ""
    first = idle[0]
    return (
        f"{len(idle)} of {len(settings)} runs make no updates: actions are random until "
        f"{first.learning_starts:,} steps (learning_starts), and they end at "
        f"{first.total_env_steps:,} (total_env_steps)"
    )


def check_processors(execution: Execution, settings: Sequence[Mapping[str, Any]], alone: bool) -> None:
    """Refuse runs that would wait for CPUs or GPUs that this machine lacks.

    Args:
        execution: How the runs are to be carried out.
        settings: Of every run.
        alone: Whether a run has a process for itself, as with ``--run``.
    """
    for each in settings:
        check_workers(each["num_workers"])
    if not alone:
        cpus = cpus_per_run(execution, settings)
        most = max(own_cpus(), execution.max_concurrent * cpus)  # who says how many at a time may ask for more
        check_room(cpus, execution.gpus_per_trial, most, own_gpus())
