"""Expand the contents of a study file to runs: all combinations, seed by seed."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from interreplay.errors import RefusedRuns, UsageError, accepted_names, did_you_mean
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.replay_flags import readable, short
from interreplay.experiments.flags.values import read_written
from interreplay.experiments.studies.entries import entry, seeds_from
from interreplay.experiments.studies.study import PlannedRun

GRID_KEYS = ("buffers", "envs", "trainers", "seeds", "settings")


class SettingsResolver(NamedTuple):
    """Resolves the flags of a study to the settings of its runs.

    Attributes:
        flags: The flags of ``custom_training`` by name.
        settings_for: Returns a run's settings for given flags; raises `UsageError`.
        environment: Returns the current id of a run's environment for its settings; raises `UsageError`.
    """

    flags: Mapping[str, Flag]
    settings_for: Callable[[dict[str, Any]], SimpleNamespace]
    environment: Callable[[SimpleNamespace], str]


def expand(contents: Mapping[str, Any], resolver: SettingsResolver) -> list[PlannedRun]:
    """Return the runs of a grid, or of several under ``grids``, ordered by seed.

    Args:
        contents: The lists ``buffers``, ``envs``, ``trainers`` and ``seeds``, and ``settings``. Next to ``grids``,
            they are the defaults of each grid.
        resolver: Resolves flags to settings.

    Raises:
        UsageError: A name is unknown, or a list is empty.
    """
    common = {key: value for key, value in contents.items() if key in GRID_KEYS}
    grids = contents.get("grids", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise UsageError("grids: expected a list of mappings such as {trainers: [SAC], buffers: [NMER]}")
    described: list[tuple[int, dict[str, Any], str | None]] = []
    for grid in grids:
        check_keys("grids", grid, GRID_KEYS)
        settings = typed(common.get("settings"), resolver.flags) | typed(grid.get("settings"), resolver.flags)
        described += _combinations(common | grid | {"settings": settings}, resolver)
    described.sort(key=lambda each: each[0])
    runs = []
    reasons = {}
    for number, (_, flags, label) in enumerate(described):
        try:
            runs.append(make_run(flags, label, resolver))
        except UsageError as error:
            reasons[number] = str(error)
    if reasons:
        raise RefusedRuns(reasons, len(described))
    return runs


def _combinations(
    grid: Mapping[str, Any], resolver: SettingsResolver
) -> Iterator[tuple[int, dict[str, Any], str | None]]:
    """Yield the position of the seed, the flags and the label of each run of a grid."""
    seeds = seeds_from(grid.get("seeds", 1))
    buffers = [_buffer(value, resolver) for value in _listed(grid, "buffers", [None])]
    envs = [_with_settings(value, "env", resolver) for value in _listed(grid, "envs", ["InvertedPendulum-v5"])]
    trainers = [_with_settings(value, "trainer", resolver) for value in _listed(grid, "trainers", ["SAC"])]
    for (place, seed), env, trainer, buffer in itertools.product(enumerate(seeds), envs, trainers, buffers):
        label, own = buffer
        yield place, grid["settings"] | trainer | env | own | {"seed": seed}, label


def make_run(flags: dict[str, Any], label: str | None, resolver: SettingsResolver, **more: Any) -> PlannedRun:
    """Return a run from its flags, after checking that they fit each other.

    Args:
        flags: Flags and values. ``buffer_args`` is a mapping.
        label: Name of the replay method in tables; None derives it from the arguments.
        resolver: Resolves flags to settings.
        **more: Further attributes of the `PlannedRun`.
    """
    run = PlannedRun(flags.get("trainer", "SAC"), "", label or "", flags.get("seed", 0), flags, **more)
    settings = resolver.settings_for(run.given())
    env = resolver.environment(settings)
    if not label:
        arguments = [f"{name}={readable(value)}" for name, value in settings.buffer_args.items()]
        if settings.prioritized is not None:
            arguments.append("prioritized")
        label = short(settings.buffer)
        if arguments:
            label += f"({','.join(arguments)})"
    return PlannedRun(settings.trainer, env, label, settings.seed, flags | {"env": env}, **more)


def with_values(run: PlannedRun, values: Mapping[str, Any], resolver: SettingsResolver) -> PlannedRun:
    """Return a run of a search with other values and the same name.

    Args:
        run: The run.
        values: Values of the searched settings, by flags or by arguments of the replay method.
        resolver: Resolves flags to settings.

    Raises:
        UsageError: The values do not fit each other.
    """
    flags = dict(run.flags)
    arguments = dict(flags.get("buffer_args", {}))
    for name, value in values.items():
        target = flags if name in resolver.flags else arguments
        target[name] = value
    if arguments:
        flags["buffer_args"] = arguments
    return replace(make_run(flags, run.label, resolver, sampled=dict(values)), called=run.called)


def _listed(grid: Mapping[str, Any], key: str, default: list[Any]) -> list[Any]:
    value = grid.get(key, default)
    if not isinstance(value, list):
        value = [value]
    if not value or (key in grid and value == [None]):
        raise UsageError(f"{key} is empty, so the grid is; give at least one, or leave {key} out")
    return value


def _buffer(value: Any, resolver: SettingsResolver) -> tuple[str | None, dict[str, Any]]:
    """Return the label and the flags of an entry of ``buffers``."""
    if value is None:
        return None, {}
    name, options = entry(value, "buffer")
    flags = typed(options.pop("settings", None), resolver.flags) | {"buffer": name}
    label = options.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise UsageError(f"label {label!r} of {name}: expected a name")
    if options:
        flags["buffer_args"] = options
    return label, flags


def _with_settings(value: Any, kind: str, resolver: SettingsResolver) -> dict[str, Any]:
    """Return the flags of an entry of ``envs`` or ``trainers``."""
    name, options = entry(value, kind)
    return {kind: name} | typed(options, resolver.flags)


def typed(settings: Any, flags: Mapping[str, Flag]) -> dict[str, Any]:
    """Convert settings from YAML as the flags of the same names convert their values.

    Raises:
        UsageError: There is no such flag, or it rejects the value.
    """
    if not isinstance(settings, dict | None):
        raise UsageError(f"settings {settings!r}: expected a mapping such as {{total_env_steps: 10000}}")
    found = {}
    for key, value in (settings or {}).items():
        name = str(key).replace("-", "_")
        name = next((flag.name for flag in flags.values() if name in flag.aliases), name)
        if name not in flags:
            near = did_you_mean(name, sorted(name for name, flag in flags.items() if flag.in_study is None))
            raise UsageError(
                f"settings: unknown {key!r}; {near} accepted: every flag that custom_training.py --help lists"
            )
        instead = flags[name].in_study
        if instead is not None:
            hint = f"; use {instead}" if instead else ""
            raise UsageError(f"settings: {key} does not belong into a study{hint}")
        try:
            read = read_written(flags[name], value)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"settings: {key} {error}") from None
        found[name] = list(read) if isinstance(read, tuple) else read
    return found


def check_keys(where: str, mapping: Mapping[Any, Any], accepted: tuple[str, ...]) -> None:
    """Reject unknown keys.

    Raises:
        UsageError: A key is unknown; suggests the most similar one.
    """
    for key in mapping:
        if key not in accepted:
            raise UsageError(f"{where}: unknown {key!r}; {accepted_names(str(key), accepted)}")
