"""Resolve and check a run before it starts: settings, environment and replay buffer. Does not require Ray."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from interreplay.buffer.device_nmer import DeviceNMER
from interreplay.diagnostics.memory_estimate import estimate, estimate_unrolls, network_bytes
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.environments.lookup import Environment
from interreplay.environments.spaces import columns_from_spaces, flat_actions
from interreplay.errors import UsageError
from interreplay.experience import Mix, ModelBased, RowSource, make_source
from interreplay.experiments.flags import training_flags
from interreplay.experiments.flags.offline_flags import check_recorded
from interreplay.experiments.flags.presets import format_flags
from interreplay.experiments.flags.replay_flags import describe_source, format_argument, format_arguments, shorten_name
from interreplay.experiments.flags.run_flags import environment_config
from interreplay.experiments.process.machine import check_device, check_workers, choose_device, count_gpus, free_memory
from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate
from interreplay.learning.actor_critic.compilation import can_compile
from interreplay.learning.actor_critic.crossq import CrossQUpdate
from interreplay.learning.actor_critic.tqc import TQCUpdate
from interreplay.learning.algorithms_table import ALGORITHMS, VARIANTS, check_actions, get_architecture
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.losses import check_loss, find_chosen_losses
from interreplay.learning.networks.encoders import is_image
from interreplay.learning.update import CRITIC_LOSS, SUCCESS_COLUMN, Update
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.runs.resume import first_settings
from interreplay.runs.run_folder import ensure_writable, find_checkpoints
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.mixture import UnrollMix

Source = RowSource | UnrollMix | None
UPDATES: dict[str, type[Update]] = {"TQC": TQCUpdate, "CrossQ": CrossQUpdate}
"""Updates that provide less than other actor-critic updates."""
MANY_UPDATES = 100_000
"""Number of updates from which compilation saves more time than it takes."""
WIDTHS = ("hiddens", "critic_hiddens", "lstm_cells")


@dataclass(frozen=True)
class PreparedRun:
    """A checked run that is ready to be built: its settings, its empty source of batches, and lines that describe it.

    The source is None for unrolls without replay.
    """

    settings: training_flags.RunSettings
    source: Source
    lines: tuple[str, ...]


def prepare(given: Mapping[str, Any], checkpoints: Sequence[Path], home: Path | None) -> PreparedRun:
    """Resolve and check a run in the folder `home`, None for a new one.

    The checkpoints are those to resume from, the preferred one first; none for a new run.
    """
    if checkpoints:
        settings = training_flags.settings_resumed(first_settings(checkpoints), given)
    else:
        settings = training_flags.resolve_settings(given)
        check_workers(settings.num_workers)
        if settings.fork_from:  # must exist
            find_checkpoints(Path(settings.fork_from), "--fork_from")
    device = choose_device(settings.device, count_gpus())
    check_device(device)
    environment = training_flags.make_environment(settings)
    output_dir = given.get("output_dir", settings.output_dir)
    if home:
        output_dir = home.parent
    settings = settings.replace(device=device, env=environment.name, output_dir=str(output_dir))
    check_actions(settings.trainer, settings.env, environment.action_space)
    lines = [environment.note]
    if "config" in given:
        lines = [f"configuration {given['config']}", environment.note]
    if not checkpoints:
        lines.append(training_flags.preset_summary(given, settings))
    lines.append(describe(settings))
    if settings.offline_data is not None:
        key, recorded = check_recorded(settings, environment.spaces)
        settings = settings.replace(offline_key=key)
        lines.append(recorded)
    source = make_checked_source(settings, environment)
    check_networks(settings, environment)
    lines.append(check_memory(settings, environment, source))
    ensure_writable(home or Path(settings.output_dir))
    starts = settings.learning_starts
    if starts and not checkpoints and not settings.fork_from:
        line = f"random actions until {starts:,} steps"
        if starts >= settings.total_env_steps:
            line = f"no updates: {line} (--learning_starts), and the run ends at {settings.total_env_steps:,}"
        lines.append(line)
    if not checkpoints and "torch_compile" not in given:
        lines.append(compilation_hint(settings, source, environment.observation_space))
    return PreparedRun(settings, source, tuple(filter(None, lines)))


def compilation_hint(settings: SimpleNamespace, source: Source, observation_space: gym.Space) -> str:
    """Return a line that recommends compiled updates for a run with many of them, "" if that is impossible or set."""
    if source is None or isinstance(source, UnrollMix):
        return ""
    if getattr(settings, "torch_compile", True) or settings.device != "cpu":
        return ""
    vectors = isinstance(observation_space, gym.spaces.Box) and not is_image(observation_space)
    encodes = settings.network is not None or settings.encoder != "auto"
    draws = settings.critic_dropout or getattr(settings, "target_subset", None)  # TQC has no subsets
    updates = settings.updates_per_step * settings.total_env_steps
    if not vectors or encodes or draws or source.brings_critic_loss:
        return ""
    if updates < MANY_UPDATES or not can_compile():
        return ""
    return f"up to {updates:,.0f} updates: --torch_compile true makes them faster"


def describe(settings: SimpleNamespace) -> str:
    """Return a summary of the run: algorithm, replay method, environment and seed."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = "Prioritized"
    method = format_argument({"type": settings.buffer} | format_arguments(arguments))
    return f"{shorten_name(settings.trainer)} with {method} on {settings.env}, seed {settings.seed}"


def make_checked_source(settings: SimpleNamespace, environment: Environment) -> Source:
    """Build the source of a run's batches; reject a method that the environment or the algorithm does not support."""
    if ALGORITHMS[settings.trainer].unrolls:
        return build_mix(settings, environment)
    source = build_source(settings, environment)
    check_method(settings, source)
    return source


def build_source(settings: SimpleNamespace, environment: Environment) -> RowSource:
    """Build the source of a run's batches, and check that it can store the environment's rows."""
    kind, arguments = describe_source(settings)
    device = "cpu"
    # With graphs, the learner copies batches itself, except those of a buffer on the device of the updates.
    if settings.device == "cuda" and (not settings.cuda_graph or kind == DeviceNMER.__name__):
        device = "cuda:0"
    defaults = {
        "seed": settings.seed,
        "n_step": settings.n_step,
        "gamma": settings.gamma,
        "device": device,
        "spaces": environment.spaces,
    }
    method = settings.buffer
    try:
        source = make_source(kind, defaults, **arguments)
        losses = find_chosen_losses(vars(settings), ALGORITHMS[settings.trainer].settings)
        check_loss(**losses, method=method if source.brings_critic_loss else None)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{method}: {error}") from error
    if source.wants_goal_functions and settings.frame_stack > 1:
        raise UsageError(f"--frame_stack {settings.frame_stack}: goals would be stacked, too; {method} requires 1")
    try:
        source.check(columns_from_spaces(*environment.spaces))
    except ValueError as error:
        problem = f"{method} cannot store {settings.env}: {error}"
        raise UsageError(f"{problem}; its spaces are {environment.spaces}") from error
    return source


def check_method(settings: SimpleNamespace, source: RowSource) -> None:
    """Reject a replay method that the algorithm or the environment does not support, as at the start of the run.

    The requirements of users' algorithms and of methods with goal functions are only known at the start.
    """
    try:
        if settings.trainer in ALGORITHMS:
            offers = UPDATES.get(settings.trainer, ActorCriticUpdate).offers
            if settings.trainer in VARIANTS:
                offers = DQNUpdate.offers | {CRITIC_LOSS}  # unless the network learns a distribution
            source.check_offers(offers | {SUCCESS_COLUMN}, settings.trainer)
        if isinstance(source, ModelBased) and not source.wants_goal_functions:
            source.use_environment(*environment_config(vars(settings)))
        if settings.on_manifold_rows:
            name, arguments = environment_config(vars(settings))
            with contextlib.closing(gym.make(name, **arguments)) as env:
                OnManifold(env, settings.on_manifold_rows)
    except ValueError as error:
        raise UsageError(str(error)) from None


def build_mix(settings: SimpleNamespace, environment: Environment) -> UnrollMix | None:
    """Build the mix of unrolls that a run replays; None without replay."""
    if "parameters" not in settings.buffer_args:
        return None
    gaussian = isinstance(flat_actions(environment.action_space), gym.spaces.Box)
    mix = make_mix(settings.buffer_args["parameters"], gaussian, settings.caching)
    mix.check(settings.train_batch_size)
    return mix


def check_networks(settings: SimpleNamespace, environment: Environment) -> None:
    """Reject incompatible layers, and networks that do not fit into memory."""
    architecture = ARCHITECTURES[get_architecture(settings.trainer)]
    try:
        count, need = network_bytes(architecture, *environment.spaces, vars(settings))
    except ValueError as error:
        subject = re.split(r"\W", str(error))[0]
        prefix = "--" if hasattr(settings, subject) else "--network: "
        raise UsageError(f"{prefix}{error}") from None
    free = free_memory(settings.device)
    if need > free:
        widths = {name: getattr(settings, name) for name in WIDTHS if getattr(settings, name, None)}
        raise UsageError(
            f"{format_flags(widths)}: the networks have {count:.3g} parameters, which take {gigabytes(need)} GB in "
            f"training; {gigabytes(free)} GB are free; expected smaller layers"
        )


def gigabytes(count: float) -> str:
    """Return a number of bytes in GB: three digits, or whole from 1,000 GB on."""
    return f"{count / 1e9:,.0f}" if count >= 1e12 else f"{count / 1e9:.3g}"


def check_memory(settings: SimpleNamespace, environment: Environment, source: Source) -> str:
    """Check that the full replay buffer fits into memory; return a line about it, "" if nothing is in memory."""
    need = replay_bytes(settings, environment, source)
    if not need:
        return ""
    free = free_memory("cpu")
    if isinstance(source, UnrollMix):
        stored = f"replay of unrolls of {settings.rollout_fragment_length} steps"
        fix = "give the sources of --replay_parameters smaller capacities"
    else:
        stored = f"replay buffer of {settings.buffer_size:,} rows"
        fix = f"--buffer_size {int(0.9 * settings.buffer_size * free / need)} would fit"
    line = f"{stored}: {gigabytes(need)} GB when full, {gigabytes(free)} GB free"
    if need > free:
        raise UsageError(f"{line}; {fix}")
    if isinstance(source, DeviceNMER) and source.device.type != "cpu":
        on_gpu = source.nbytes_on_device(columns_from_spaces(*environment.spaces))
        free = free_memory(settings.device)
        line = f"{line}; on the GPU: {gigabytes(on_gpu)} GB when full, {gigabytes(free)} GB free"
        if on_gpu > free:
            raise UsageError(f"{line}; --buffer_size {int(0.9 * settings.buffer_size * free / on_gpu)} would fit")
    return line


def replay_bytes(settings: SimpleNamespace, environment: Environment, source: Source) -> int:
    """Return bytes of the full replay buffer, or of the unrolls to be replayed; 0 if nothing is stored in memory."""
    if isinstance(source, UnrollMix):
        try:
            return estimate_unrolls(*environment.spaces, source, settings.rollout_fragment_length)
        except ValueError as error:
            raise UsageError(f"{settings.buffer} cannot store {settings.env}: {error}") from error
    if source is None or settings.updates is not None:
        return 0  # recorded rows are mapped from their files
    if type(source) is Mix and settings.offline_data is not None:
        source = source.sources["online"]
    return estimate(*environment.spaces, source, environment.stacks)
