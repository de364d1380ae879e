"""A run before it starts: its settings, its environment and its replay buffer, checked without Ray."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.diagnostics.memory_estimate import columns_of_spaces, estimate, estimate_unrolls, network_bytes
from interreplay.environments.lookup import Environment, find_environment
from interreplay.errors import UsageError
from interreplay.experience import Mix, RowSource, make_source
from interreplay.experience.offline_data import open_rows
from interreplay.experiments.flags.offline_flags import check_recorded
from interreplay.experiments.flags.presets import shown
from interreplay.experiments.flags.replay_flags import readable, short, source_of
from interreplay.experiments.flags.training_flags import RunSettings, preset_told, settings_for, settings_resumed
from interreplay.experiments.process.machine import check_device, check_workers, chosen_device, free_memory, own_gpus
from interreplay.learning.algorithms_table import ALGORITHMS, architecture_of, check_actions
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.losses import check_loss, chosen_losses
from interreplay.runs.resume import first_settings
from interreplay.runs.run_folder import ensure_writable
from interreplay.unrolls.mix_settings import make_mix

WIDTHS = ("hiddens", "critic_hiddens", "lstm_cells")


@dataclass(frozen=True)
class PreparedRun:
    """A checked run that is ready to be built.

    Attributes:
        settings: Every setting, resolved.
        source: The replay buffer, or a mix with recorded rows, still without the run's own rows; None for unrolls.
        lines: Lines that describe the run.
    """

    settings: RunSettings
    source: RowSource | None
    lines: tuple[str, ...]


def prepared(given: Mapping[str, Any], checkpoints: Sequence[Path], home: Path | None) -> PreparedRun:
    """Resolve and check a run.

    Args:
        given: Flags and their values.
        checkpoints: Checkpoints to resume from, the preferred one first; empty for a new run.
        home: The run's folder, or None for a new one.

    Raises:
        UsageError: The run cannot start.
    """
    settings = settings_resumed(first_settings(checkpoints), given) if checkpoints else settings_for(given)
    device = chosen_device(settings.device, own_gpus())
    check_device(device)
    if not checkpoints:
        check_workers(settings.num_workers)
    environment = environment_of(settings)
    output_dir = str(home.parent if home else given.get("output_dir", settings.output_dir))
    settings = settings.replaced(device=device, env=environment.name, output_dir=output_dir)
    check_actions(settings.trainer, settings.env, environment.action_space)
    recorded = ""
    if getattr(settings, "offline_data", None) is not None:
        spaces = (environment.observation_space, environment.action_space)
        key, recorded = check_recorded(settings, functools.partial(open_rows, spaces=spaces))
        settings = settings.replaced(offline_key=key)
    source = None if ALGORITHMS[settings.trainer].unrolls else source_for(settings, environment)
    check_networks(settings, environment)
    memory = check_memory(settings, environment, source)
    ensure_writable(home or Path(settings.output_dir))
    lines = [given["config"].described()] if "config" in given else []
    lines += [environment.note, "" if checkpoints else preset_told(given, settings), describe(settings), memory]
    lines += [recorded, "" if checkpoints else first_update(settings)]
    return PreparedRun(settings, source, tuple(line for line in lines if line))


def environment_of(settings: SimpleNamespace) -> Environment:
    """Return the environment of a run with its wrappers.

    Raises:
        UsageError: It does not exist, or cannot be made.
    """
    return find_environment(settings.env, settings.env_args, settings.wrapper, settings.frame_stack)


def first_update(settings: SimpleNamespace) -> str:
    """Return a line about when learning begins, "" if it begins at once."""
    starts = settings.learning_starts
    total = settings.total_env_steps
    if starts >= total:
        return (
            f"no updates: actions are random until {starts:,} steps (--learning_starts), "
            f"and the run ends at {total:,} (--total_env_steps)"
        )
    return f"random actions until {starts:,} steps" if starts else ""


def describe(settings: SimpleNamespace) -> str:
    """Return a summary of the run: algorithm, replay method, environment and seed."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = "Prioritized"
    listed = ", ".join(f"{name}={readable(value)}" for name, value in arguments.items())
    method = short(settings.buffer)
    if listed:
        method += f"({listed})"
    return f"{short(settings.trainer)} with {method} on {settings.env}, seed {settings.seed}"


def source_for(settings: SimpleNamespace, environment: Environment) -> RowSource:
    """Build what a run replays, and check that it can store the environment's rows.

    Raises:
        UsageError: It cannot be built, or cannot store what the environment returns.
    """
    spaces = (environment.observation_space, environment.action_space)
    kind, arguments = source_of(settings)
    defaults = {
        "seed": settings.seed,
        "n_step": settings.n_step,
        "gamma": settings.gamma,
        "device": "cuda:0" if settings.device == "cuda" else "cpu",
        "spaces": spaces,
    }
    method = settings.buffer
    try:
        source = make_source(kind, defaults, **arguments)
        check_loss(
            *chosen_losses(vars(settings), ALGORITHMS[settings.trainer].settings),
            method if source.brings_critic_loss else None,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"{method}: {error}") from error
    if source.wants_goal_functions and settings.frame_stack > 1:
        raise UsageError(f"--frame_stack {settings.frame_stack}: goals would be stacked, too; {method} requires 1")
    try:
        source.check(columns_of_spaces(*spaces))
    except ValueError as error:
        raise UsageError(f"{method} cannot store {settings.env}: {error}; its spaces are {spaces}") from error
    return source


def check_networks(settings: SimpleNamespace, environment: Environment) -> None:
    """Reject layers whose networks do not fit into memory.

    Raises:
        UsageError: With their sizes, and the memory that they need.
    """
    spaces = (environment.observation_space, environment.action_space)
    count, need = network_bytes(ARCHITECTURES[architecture_of(settings.trainer)], *spaces, vars(settings))
    free = free_memory(settings.device)
    if need > free:
        widths = {name: getattr(settings, name) for name in WIDTHS if getattr(settings, name, None)}
        raise UsageError(
            f"{shown(widths)}: the networks have {count:.3g} parameters, which take {need / 1e9:.3g} GB in "
            f"training; {free / 1e9:.3g} GB are free; expected smaller layers"
        )


def check_memory(settings: SimpleNamespace, environment: Environment, source: RowSource | None) -> str:
    """Compare the memory of the full replay buffer with the free memory.

    Returns:
        A line with both, "" if nothing is stored in memory.

    Raises:
        UsageError: The unrolls of a mix cannot be stored, or the buffer does not fit into memory.
    """
    need = replay_bytes(settings, environment, source)
    if not need:
        return ""
    if source is None:
        free = free_memory("cpu")
        stored = f"replay of unrolls of {settings.rollout_fragment_length} steps"
        fix = "give the sources of --replay_parameters smaller capacities"
    else:
        free = free_memory(settings.device)
        stored = f"replay buffer of {settings.buffer_size:,} rows"
        fix = f"--buffer_size {int(0.9 * settings.buffer_size * free / need)} would fit"
    line = f"{stored}: {need / 1e9:.3g} GB when full, {free / 1e9:.3g} GB free"
    if need > free:
        raise UsageError(f"{line}; {fix}")
    return line


def replay_bytes(settings: SimpleNamespace, environment: Environment, source: RowSource | None) -> int:
    """Return bytes of the full replay buffer, or of the unrolls to be replayed; 0 if nothing is stored in memory.

    Raises:
        UsageError: The unrolls cannot be stored, or cannot make batches of the requested size.
    """
    spaces = (environment.observation_space, environment.action_space)
    if source is not None:
        if settings.updates is not None:
            return 0  # recorded rows are mapped from their files
        own = source.sources["online"] if isinstance(source, Mix) and settings.offline_data is not None else source
        return estimate(*spaces, own, environment.stacks)
    if "parameters" not in settings.buffer_args:
        return 0
    mix = make_mix(settings.buffer_args["parameters"])
    mix.check(settings.train_batch_size)
    try:
        return estimate_unrolls(*spaces, mix, settings.rollout_fragment_length)
    except ValueError as error:
        raise UsageError(f"{settings.buffer} cannot store {settings.env}: {error}") from error
