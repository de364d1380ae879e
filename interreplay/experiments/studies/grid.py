"""From a study file's contents to its runs: every combination, seed by seed."""

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
    """From what a study says to the settings of its runs.

    Attributes:
        flags: Every flag of ``custom_training`` by name.
        settings_for: From given flags to a run's settings; raises `UsageError`.
        environment: From a run's settings to its environment's current id; raises `UsageError`.
    """

    flags: Mapping[str, Flag]
    settings_for: Callable[[dict[str, Any]], SimpleNamespace]
    environment: Callable[[SimpleNamespace], str]


def expand(contents: Mapping[str, Any], resolver: SettingsResolver) -> list[PlannedRun]:
    """Return the runs of a grid, or of several under ``grids``: all of the first seed, then all of the second, ...

    Args:
        contents: Lists ``buffers``, ``envs``, ``trainers``, ``seeds`` and ``settings``; those beside ``grids`` are
            the defaults of each grid.
        resolver: What they mean.

    Raises:
        UsageError: Something is unknown, or empty.
    """
    common = {key: value for key, value in contents.items() if key in GRID_KEYS}
    grids = contents.get("grids", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise UsageError("grids: expected a list of mappings such as {trainers: [SAC], buffers: [NMER]}")
    described: list[tuple[int, dict[str, Any], str | None]] = []
    for grid in grids:
        check_keys("grids", grid, GRID_KEYS)
        settings = typed(common.get("settings"), resolver.flags) | typed(grid.get("settings"), resolver.flags)
        described += _one(common | grid | {"settings": settings}, resolver)
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


def _one(grid: Mapping[str, Any], resolver: SettingsResolver) -> Iterator[tuple[int, dict[str, Any], str | None]]:
    """Yield the place of its seed in the list of seeds, the flags and the label of every run."""
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
        flags: Flags and values, ``buffer_args`` among them as a mapping.
        label: The replay method's name in tables; made from its arguments for None.
        resolver: What the flags mean.
        **more: Further attributes of the `PlannedRun`.
    """
    run = PlannedRun(flags.get("trainer", "SAC"), "", label or "", flags.get("seed", 0), flags, **more)
    settings = resolver.settings_for(run.given())
    env = resolver.environment(settings)
    flags = flags | {"env": env}
    return PlannedRun(settings.trainer, env, label or label_of(settings), settings.seed, flags, **more)


def with_values(run: PlannedRun, values: Mapping[str, Any], resolver: SettingsResolver) -> PlannedRun:
    """Return a run of a search with other values, under the same name.

    Args:
        run: The run.
        values: Of the searched settings, by flags or by arguments of the replay method.
        resolver: What flags mean.

    Raises:
        UsageError: They do not fit each other.
    """
    of_flags = {name: value for name, value in values.items() if name in resolver.flags}
    arguments = run.flags.get("buffer_args", {}) | {k: v for k, v in values.items() if k not in of_flags}
    flags = run.flags | of_flags | ({"buffer_args": arguments} if arguments else {})
    return replace(make_run(flags, run.label, resolver, sampled=dict(values)), called=run.called)


def label_of(settings: SimpleNamespace) -> str:
    """Return a replay method and the arguments that were given to it: ``NMER(k=3)``."""
    listed = [f"{name}={readable(value)}" for name, value in settings.buffer_args.items()]
    listed += ["prioritized"] if settings.prioritized is not None else []
    return f"{short(settings.buffer)}({','.join(listed)})" if listed else short(settings.buffer)


def _listed(grid: Mapping[str, Any], key: str, otherwise: list[Any]) -> list[Any]:
    value = grid.get(key, otherwise)
    value = value if isinstance(value, list) else [value]
    if not value or (key in grid and value == [None]):
        raise UsageError(f"{key} is empty, so the grid is; give at least one, or leave {key} out")
    return value


def _buffer(value: Any, resolver: SettingsResolver) -> tuple[str | None, dict[str, Any]]:
    """Return the label and the flags of an entry of ``buffers``."""
    if value is None:
        return None, {}
    name, options = entry(value, "buffer")
    own = typed(options.pop("settings", None), resolver.flags)
    label = options.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise UsageError(f"label {label!r} of {name}: expected a name")
    return label, own | {"buffer": name} | ({"buffer_args": options} if options else {})


def _with_settings(value: Any, kind: str, resolver: SettingsResolver) -> dict[str, Any]:
    """Return the flags of an entry of ``envs`` or ``trainers``."""
    name, options = entry(value, kind)
    return {kind: name} | typed(options, resolver.flags)


def typed(settings: Any, flags: Mapping[str, Flag]) -> dict[str, Any]:
    """Return settings from YAML as the flags of the same names would have read them.

    Raises:
        UsageError: There is no such flag, or it does not take such a value.
    """
    if not isinstance(settings, dict | None):
        raise UsageError(f"settings {settings!r}: expected a mapping such as {{total_env_steps: 10000}}")
    found = {}
    for key, value in (settings or {}).items():
        name = str(key).replace("-", "_")
        name = next((flag.name for flag in flags.values() if name in flag.aliases), name)
        if name in flags and (instead := flags[name].in_study) is not None:
            raise UsageError(f"settings: {key} does not belong into a study" + (f"; use {instead}" if instead else ""))
        if name not in flags:
            near = did_you_mean(name, sorted(name for name, flag in flags.items() if flag.in_study is None))
            raise UsageError(
                f"settings: unknown {key!r}; {near} accepted: every flag that custom_training.py --help lists"
            )
        try:
            read = read_written(flags[name], value)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"settings: {key} {error}") from None
        found[name] = list(read) if isinstance(read, tuple) else read
    return found


def check_keys(where: str, mapping: Mapping[Any, Any], accepted: tuple[str, ...]) -> None:
    """Refuse keys that mean nothing.

    Raises:
        UsageError: Naming the nearest that would be accepted.
    """
    for key in mapping:
        if key not in accepted:
            raise UsageError(f"{where}: unknown {key!r}; {accepted_names(str(key), accepted)}")
