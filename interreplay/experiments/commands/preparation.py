"""What a run will be: its settings and environment, refused before anything is started, and the lines that say so."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.diagnostics.memory_estimate import columns_of_spaces, estimate, estimate_unrolls, network_bytes
from interreplay.environments.lookup import Environment
from interreplay.errors import UsageError
from interreplay.experience import make_source
from interreplay.experience.offline_data import open_rows
from interreplay.experiments.flags.environment_flags import environment_of
from interreplay.experiments.flags.offline_flags import check_recorded
from interreplay.experiments.flags.part_flags import readable, short
from interreplay.experiments.flags.presets import shown
from interreplay.experiments.flags.replay_flags import replay_arguments
from interreplay.experiments.flags.training_flags import preset_told, settings_for, settings_resumed
from interreplay.experiments.process.machine import check_device, check_workers, chosen_device, free_memory, own_gpus
from interreplay.learning.algorithms_table import ALGORITHMS, architecture_of, check_actions
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.losses import check_loss, chosen_losses
from interreplay.runs.resume import first_settings
from interreplay.runs.run_folder import ensure_writable
from interreplay.unrolls.mix_settings import make_mix

WIDTHS = ("hiddens", "critic_hiddens", "lstm_cells")


def prepared(
    given: Mapping[str, Any], checkpoints: Sequence[Path], home: Path | None
) -> tuple[SimpleNamespace, list[str]]:
    """Return a run's settings and lines about them; arguments as for `run`.

    Raises:
        UsageError: They cannot be.
    """
    settings = settings_resumed(first_settings(checkpoints), given) if checkpoints else settings_for(given)
    settings.device = chosen_device(settings.device, own_gpus())
    check_device(settings.device)
    if not checkpoints:
        check_workers(settings.num_workers)
    environment = environment_of(vars(settings))
    settings.env = environment.name
    settings.output_dir = str(home.parent if home else given.get("output_dir", settings.output_dir))
    spaces = environment.observation_space, environment.action_space
    check_actions(settings.trainer, settings.env, environment.action_space)
    recorded = check_recorded(settings, functools.partial(open_rows, spaces=spaces))
    check_networks(settings, environment)
    memory = check_memory(settings, environment)
    ensure_writable(home or Path(settings.output_dir))
    lines = [given["config"].told()] if "config" in given else []
    lines += [environment.note, "" if checkpoints else preset_told(given), describe(settings), memory, recorded]
    return settings, [*lines, "" if checkpoints else first_update(settings)]


def first_update(settings: SimpleNamespace) -> str:
    """Return a line that says when learning begins, and whether it does at all; "" where it begins at once."""
    starts, total = settings.learning_starts, settings.total_env_steps
    if starts >= total:
        return (
            f"no updates: actions are random until {starts:,} steps (--learning_starts), "
            f"and the run ends at {total:,} (--total_env_steps)"
        )
    return f"random actions until {starts:,} steps" if starts else ""


def describe(settings: SimpleNamespace) -> str:
    """Return the job in half a line."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = "Prioritized"
    listed = ", ".join(f"{name}={readable(value)}" for name, value in arguments.items())
    method = f"{short(settings.buffer)}({listed})" if listed else short(settings.buffer)
    return f"{short(settings.trainer)} with {method} on {settings.env}, seed {settings.seed}"


def check_networks(settings: SimpleNamespace, environment: Environment) -> None:
    """Compare what training takes for the networks with what is free.

    Raises:
        UsageError: They will not fit.
    """
    spaces = environment.observation_space, environment.action_space
    model = vars(settings)
    count, need = network_bytes(ARCHITECTURES[architecture_of(settings.trainer)], *spaces, model)
    free = free_memory(settings.device)
    if need > free:
        raise UsageError(
            f"{shown(widths(settings))}: the networks have {count:.3g} parameters, which take {need / 1e9:.3g} GB in "
            f"training; {free / 1e9:.3g} GB are free; expected smaller layers"
        )


def widths(settings: SimpleNamespace) -> dict[str, Any]:
    """Return the settings that state how many units layers have, by name."""
    return {name: getattr(settings, name) for name in WIDTHS if getattr(settings, name, None)}


def check_memory(settings: SimpleNamespace, environment: Environment) -> str:
    """Compare what the replay method will take with the memory that is free.

    Returns:
        A line that states both, "" where the method stores nothing in memory.

    Raises:
        UsageError: The method cannot be made, cannot store what the environment gives, or will not fit.
    """
    need = replay_bytes(settings, environment)
    if not need:
        return ""
    if ALGORITHMS[settings.trainer].unrolls:
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


def replay_bytes(settings: SimpleNamespace, environment: Environment) -> int:
    """Make the replay method, still empty, and return its bytes when it is full.

    Raises:
        UsageError: It cannot be made, or cannot store what the environment gives.
    """
    spaces = environment.observation_space, environment.action_space
    if ALGORITHMS[settings.trainer].unrolls:
        return unroll_bytes(settings, environment)
    try:
        buffer = make_source(settings.buffer, capacity=settings.buffer_size, **replay_arguments(settings))
        huber_delta, pal_alpha = chosen_losses(vars(settings), ALGORITHMS[settings.trainer].settings)
        check_loss(huber_delta, pal_alpha, brought_by=settings.buffer if buffer.brings_critic_loss else None)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{settings.buffer}: {error}") from error
    if buffer.wants_goal_functions and settings.frame_stack > 1:
        raise UsageError(f"--frame_stack {settings.frame_stack}: goals would be stacks, too; {settings.buffer} takes 1")
    try:
        buffer.check(columns_of_spaces(*spaces))
    except ValueError as error:
        raise UsageError(f"{settings.buffer} cannot store {settings.env}: {error}; its spaces are {spaces}") from error
    if settings.updates is not None:
        return 0  # of rows that are mapped alone
    return estimate(*spaces, buffer, environment.stacks)


def unroll_bytes(settings: SimpleNamespace, environment: Environment) -> int:
    """Return bytes that the unrolls to be replayed will take, 0 where there are none.

    Raises:
        UsageError: They cannot be stored, or make no such batches.
    """
    if "parameters" not in settings.buffer_args:
        return 0
    mix = make_mix(settings.buffer_args["parameters"])
    mix.check(settings.train_batch_size)
    spaces = environment.observation_space, environment.action_space
    try:
        return estimate_unrolls(*spaces, mix, settings.rollout_fragment_length)
    except ValueError as error:
        raise UsageError(f"{settings.buffer} cannot store {settings.env}: {error}") from error
