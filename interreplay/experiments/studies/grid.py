"""Study files and inputs files: read them, and expand their contents to runs: all combinations, seed by seed."""

from __future__ import annotations

import functools
import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import RejectedRuns, UsageError, check_keys, did_you_mean
from interreplay.experiments.flags.original_flags import BLENDS, BUFFER_ARGUMENTS, GAUSSIAN_PROCESS_NAMES, METHODS
from interreplay.experiments.flags.presets import UniqueKeyLoader
from interreplay.experiments.flags.replay_flags import format_arguments, shorten_name
from interreplay.experiments.flags.run_flags import ALIASES, FLAGS, IN_STUDIES
from interreplay.experiments.flags.study_flags import FILE_KEYS
from interreplay.experiments.flags.training_flags import make_environment
from interreplay.experiments.flags.values import drop_settings, read_written, select_settings
from interreplay.experiments.studies.study import PlannedRun
from interreplay.learning.setting_fields import SEED, WholeNumber
from interreplay.runs.resume import as_plain

GRID_KEYS = ("buffers", "envs", "trainers", "seeds", "settings")
SEED_COUNT = WholeNumber(1, 1_000)
"""Larger numbers are rejected because they are probably seeds."""
INPUT_FIELDS = ("seed", "env", "custom_replay_buffer", "agent_name", "replay_ratio", "local_dir", "trainer")
INPUT_NAMES = {"replay_ratio": "updates_per_step"}
"""Flags of fields with another name; agent_name becomes the label, local_dir the folder of the study."""
OF_CUSTOM = {*METHODS, *BLENDS, *BUFFER_ARGUMENTS, *GAUSSIAN_PROCESS_NAMES, "interp_prio_update"}
"""Flags of the first line that do not apply to runs with custom_replay_buffer False, as in the original work."""


def read_study_file(path: Path) -> dict[str, Any]:
    """Return the contents of a study file: keys of a grid, ``grids``, and the settings of its execution."""
    try:
        contents = yaml.load(path.read_text(), UniqueKeyLoader)
    except OSError as error:
        raise UsageError(f"study file {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        hint = "in a list, entries with braces need quotes: 'NMER{k: 10}'"
        raise UsageError(f"study file {path} is not valid YAML: {' '.join(str(error).split())}; {hint}") from None
    if not isinstance(contents, dict) or not contents:
        raise UsageError(f"study file {path} holds no study; expected keys such as buffers, envs, trainers and seeds")
    keys = (*GRID_KEYS, "grids", "search", *FILE_KEYS)
    for key, value in contents.items():
        if key in IN_STUDIES and key not in keys:
            raise UsageError(f"{path}: {key} is a setting of the runs; expected settings: {{{key}: {value}}}")
    check_keys(str(path), contents, keys)
    for key in FILE_KEYS.keys() & contents.keys():
        value = read_written(FILE_KEYS[key], contents.pop(key), key)
        if value is not None:
            contents[key] = value
    return contents


def expand(contents: Mapping[str, Any]) -> list[PlannedRun]:
    """Return the runs of a grid, or of several under ``grids``, ordered by seed.

    The contents are the lists ``buffers``, ``envs``, ``trainers`` and ``seeds``, and ``settings``. Next to ``grids``,
    they are the defaults of each grid.
    """
    common = select_settings(contents, GRID_KEYS)
    grids = contents.get("grids", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise UsageError("grids: expected a list of mappings such as {trainers: [SAC], buffers: [NMER]}")
    described: list[tuple[int, dict[str, Any], str | None]] = []
    for grid in grids:
        check_keys("grids", grid, GRID_KEYS)
        settings = convert_settings(common.get("settings")) | convert_settings(grid.get("settings"))
        described += _combinations(common | grid | {"settings": settings})
    described.sort(key=itemgetter(0))
    runs = []
    reasons = {}
    for number, (_, flags, label) in enumerate(described):
        try:
            runs.append(make_run(flags, label))
        except UsageError as error:
            reasons[number] = str(error)
    if reasons:
        raise RejectedRuns(reasons, len(described))
    return runs


def _combinations(grid: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any], str | None]]:
    """Yield the position of the seed, the flags and the label of each run of a grid."""
    seeds = read_seeds(grid.get("seeds", 1))
    buffers = map(_buffer, _read_list(grid, "buffers", [None]))
    envs = map(functools.partial(_with_settings, "env"), _read_list(grid, "envs", ["InvertedPendulum-v5"]))
    trainers = map(functools.partial(_with_settings, "trainer"), _read_list(grid, "trainers", ["SAC"]))
    for (place, seed), env, trainer, (label, own) in itertools.product(enumerate(seeds), envs, trainers, buffers):
        yield place, grid["settings"] | trainer | env | own | {"seed": seed}, label


def make_run(flags: dict[str, Any], label: str | None, **more: Any) -> PlannedRun:
    """Return a run from its flags, after checking them; `more` are further attributes of the `PlannedRun`.

    The flag ``buffer_args`` is a mapping. The default label contains the arguments of the replay method.
    """
    run = PlannedRun(flags.get("trainer", "SAC"), "", label or "", seed=flags.get("seed", 0), flags=flags, **more)
    settings = run.settings
    env = make_environment(settings).name
    if not label:
        shown = format_arguments(settings.buffer_args)
        arguments = [f"{name}={value}" for name, value in shown.items()]
        if settings.prioritized is not None:
            arguments.append("prioritized")
        label = shorten_name(settings.buffer)
        if arguments:
            label += f"({','.join(arguments)})"
    return PlannedRun(settings.trainer, env, label, seed=settings.seed, flags=flags | {"env": env}, **more)


def with_values(run: PlannedRun, values: Mapping[str, Any]) -> PlannedRun:
    """Return a run of a search with other values of flags or arguments of the replay method, and the same name."""
    flags = dict(run.flags)
    arguments = dict(flags.get("buffer_args", {}))
    for name, value in values.items():
        if name in FLAGS:
            flags |= convert_settings({name: value})
        else:
            arguments[name] = value
    if arguments:
        flags["buffer_args"] = arguments
    return make_run(flags, run.label, sampled=dict(values))


def _read_list(grid: Mapping[str, Any], key: str, default: list[Any]) -> list[Any]:
    value = grid.get(key, default)
    if not isinstance(value, list):
        value = [value]
    if not value or (key in grid and value == [None]):
        raise UsageError(f"{key} is empty; expected at least one entry, or no key {key}")
    if key in grid and None in value:
        raise UsageError(f"{key} has an empty entry; expected names only")
    return value


def _buffer(value: Any) -> tuple[str | None, dict[str, Any]]:
    """Return the label and the flags of an entry of ``buffers``."""
    if value is None:
        return None, {}
    name, options = entry(value, "buffer")
    flags = convert_settings(options.pop("settings", None)) | {"buffer": name}
    label = options.pop("label", None)
    if label is not None and not isinstance(label, str):
        raise UsageError(f"label {label!r} of {name}: expected a name")
    if options:
        flags["buffer_args"] = options
    return label, flags


def _with_settings(kind: str, value: Any) -> dict[str, Any]:
    """Return the flags of an entry of ``envs`` or ``trainers``."""
    name, options = entry(value, kind)
    return {kind: name} | convert_settings(options)


def convert_settings(settings: Any) -> dict[str, Any]:
    """Convert settings from YAML with the readers of the flags of the same names."""
    if not isinstance(settings, dict | None):
        raise UsageError(f"settings {settings!r}: expected a mapping such as {{total_env_steps: 10000}}")
    found = {}
    for key, value in (settings or {}).items():
        name = str(key).replace("-", "_")
        name = ALIASES.get(name, name)
        if name not in FLAGS:
            near = did_you_mean(name, sorted(IN_STUDIES))
            raise UsageError(
                f"settings: unknown {key!r}; {near} accepted: every flag that interreplay train --help all lists"
            )
        instead = FLAGS[name].in_study
        if instead is not None:
            raise UsageError(f"settings: {key} does not belong in a study; use {instead or 'interreplay train'}")
        found[name] = as_plain(read_written(FLAGS[name], value, f"settings: {key}"))
    return found


def entry(value: Any, kind: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of ``NMER``, ``"NMER{k: 10}"`` or ``{NMER: {k: 10}}``."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(name, str) and isinstance(options, dict | None):
            return name, {str(key): option for key, option in (options or {}).items()}
    if isinstance(value, str) and value.strip():
        name, brace, rest = value.strip().partition("{")
        try:
            options = yaml.safe_load(brace + rest or "{}")
        except yaml.YAMLError:
            options = None
        # YAML reads {k=10} as a key without a value.
        if not isinstance(options, dict) or (None in options.values() and "null" not in rest):
            example = "'NMER{k: 10}', a space after the colon"
            raise UsageError(f"{value!r} cannot be read; expected something like {example}")
        return name.strip(), options
    raise UsageError(
        f"{kind} {value!r} is not a valid entry; expected a name, 'NAME{{option: value}}' or {{NAME: {{...}}}}"
    )


def read_seeds(value: Any) -> list[int]:
    """Return a list of seeds: a number n means 0 ... n - 1, a list is returned unchanged."""
    if SEED_COUNT.admits(value):
        return list(range(value))
    if isinstance(value, list | tuple) and value and all(map(SEED.admits, value)):
        return list(value)
    raise UsageError(
        f"seeds {value!r}: expected a number of seeds from 1 to {SEED_COUNT.high}, such as 5, "
        f"or a list of seeds from 0 to {SEED.high}, such as [0, 1, 2]"
    )


def as_seeds(words: Sequence[str]) -> int | list[int]:
    """Return seeds from the command line: ``5`` is a number of seeds, ``0,3`` and ``[5]`` are lists."""
    text = ",".join(words)
    try:
        numbers = list(map(int, text.removeprefix("[").removesuffix("]").split(",")))
    except ValueError:
        raise UsageError(f"--seeds {text}: expected a number of seeds such as 5, or seeds such as 0,3 or [5]") from None
    if len(numbers) == 1 and not text.startswith("["):
        return numbers[0]
    return numbers


def read_inputs_file(
    path: Path, given: Callable[[Sequence[str]], dict[str, Any]]
) -> tuple[list[PlannedRun], list[str]]:
    """Return the runs of an inputs file and the folders that it names; `given` parses a line of flags."""
    try:
        first, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--inputs {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    runs = []
    folders = []
    where = f"{path}, line 1"
    try:
        common = _flags(given(shlex.split(first)))
        for number, line in enumerate(lines, 2):
            where = f"{path}, line {number}"
            words = shlex.split(line)
            if not words:
                continue
            if len(words) != len(INPUT_FIELDS):
                raise UsageError(f"{len(words)} words; expected {len(INPUT_FIELDS)}: {' '.join(INPUT_FIELDS)}")
            fields = dict(zip(INPUT_FIELDS, words, strict=True))
            folders.append(fields.pop("local_dir"))
            label = fields.pop("agent_name")
            named = [f"--{INPUT_NAMES.get(name, name)}={value}" for name, value in fields.items()]
            own = _flags(given(named))
            shared = common
            if not own["custom_replay_buffer"]:
                shared = drop_settings(common, OF_CUSTOM)
            runs.append(make_run(shared | own, label))
    except ValueError as error:  # raised by shlex; also every UsageError
        raise UsageError(f"{where}: {error}") from None
    if not runs:
        names = " ".join(INPUT_FIELDS)
        raise UsageError(f"--inputs {path} holds no runs; expected flags in line 1, then lines of {names}")
    return runs, folders


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return given flags in the form of a study, without flags about one start of the program."""
    flags: dict[str, Any] = {}
    for name, value in given.items():
        if name == "buffer_arg":
            flags["buffer_args"] = dict(value)
            continue
        if name in IN_STUDIES or FLAGS[name].scope not in ("execution", "invocation"):
            flags[name] = as_plain(value)
    return flags
