"""Find the runs below result folders, read their settings and results, and name their methods.

Methods are named by the settings in which runs differ.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from interreplay.errors import UsageError
from interreplay.experiments.flags.replay_flags import format_arguments, shorten_name
from interreplay.experiments.flags.run_flags import list_flags, use_current_names
from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.studies.study import STUDY, State, StudyFolder, TrialFolder
from interreplay.runs.results.reader import FILES, NAMES, drop_repeated, flat, number, read_named, read_rows
from interreplay.runs.run_folder import STATUS

FINISHED = "finished"
UNFINISHED = "unfinished"
CRASHED = "crashed"
EMPTY = "empty"
UNREADABLE = "unreadable"
ERROR = "error.txt"
LONGEST_NOTE = 200
RUN_FILES = {*FILES, ERROR, STATUS, "params.json"}
REPLAY = "replay_buffer/"
LEARNED = "learners/default_policy/"
UNROLL_METRICS = ("rho_mean", "rho_clipped_share", "kl_to_behavior", "kept_share", "effective_sample_size")
"""Metrics of updates from unrolls that are read as diagnostics of replay."""
# Entries of params.json that do not distinguish methods, or have a field of `Description`.
NOT_A_METHOD = list_flags("identity", "execution", "invocation") | {
    *("versions", "run_id", "buffer", "buffer_args", "prioritized")
}
# Beginnings of names of RLlib's settings that do not distinguish methods: of evaluation, logs, resources and errors.
_HARMLESS = tuple(
    """
    evaluation offline_eval callbacks output log_ metrics_ keep_per_episode stats_cls in_evaluation
    num_cpus num_gpus custom_resources _fake_gpus local_ tf_session extra_python placement
    restart_failed max_num_ ignore_env_runner ignore_offline delay_between num_consecutive validate_ _validate
    min_time_s min_sample_timesteps min_train_timesteps sample_timeout sampler_perf
    env_runner_restore env_runner_health env_runner_state use_env_runner_state sync_filters_on
    render_env create_env_on_driver disable_env_checking observation_space action_space
    store_buffer checkpoint_ export_native _use_msgpack replay_buffer_config given_rates __
    """.split()  # noqa: SIM905 - a list of words
)
# Only configurations of this package have these; RLlib's algorithms of the same name train differently.
OWN_SETTINGS = {"updates_per_step", "steps_per_iteration"}
STOCK_BUFFERS = {"EpisodeReplayBuffer": "uniform", "PrioritizedEpisodeReplayBuffer": "prioritized"}
NAME_LENGTH = 26
"""Longer names are replaced by a number in figures."""


@dataclass(frozen=True)
class Description:
    """Settings of a run, as far as they are known.

    Other settings that distinguish methods are in `settings`; missing ones are unknown. Missing `arguments` of the
    replay method have their defaults. The buffer of RLlib's own algorithms is called ``"RLlib ..."``. A run of Ray Tune
    (`of_tune`) has all settings of RLlib. `parent` is the checkpoint that a run was forked from. A run that continues
    in another folder has the same `run_id` in both.
    """

    algorithm: str = "unknown"
    env: str = "unknown"
    buffer: str = "unknown"
    seed: int | None = None
    total: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    parent: str = ""
    run_id: str = ""
    of_tune: bool = False


def describe(folder: Path) -> Description:
    """Return the settings of the run in a folder; without ``params.json``, those in the name of the folder."""
    path = folder / "params.json"
    if not path.exists() or not path.stat().st_size:
        match = re.match(r"([^_]+)_([^_]+)_([^_]+)_s(\d+)(_|$)", folder.name)
        if not match:
            return Description()
        return Description(match[1], match[2], match[3], int(match[4]))
    params = json.loads(path.read_text())
    if not isinstance(params, dict):
        raise ValueError("params.json holds no settings")
    if "trainer" in params:
        return _from_own_params(use_current_names(params))
    return _from_rllib_params(params, folder.name)


def _whole_number(params: Mapping[str, Any], name: str) -> int | None:
    """Return an integer setting, None if it is missing."""
    value = params.get(name)
    if value is not None and (not isinstance(value, int) or abs(value) >= 2**63):
        raise ValueError(f"params.json: {name} is {str(value)[:50]}; expected a whole number")
    return value


def _from_own_params(params: Mapping[str, Any]) -> Description:
    arguments = format_arguments(params.get("buffer_args") or {})
    if params.get("prioritized") is not None:
        arguments["selector"] = "Prioritized"
    buffer = shorten_name(str(params.get("buffer", "unknown")))
    settings: dict[str, Any] = {"buffer": buffer}  # a study replaces the field of the same name by its label
    settings |= drop_settings(params, NOT_A_METHOD)
    return Description(
        algorithm=str(params.get("trainer", "unknown")),
        env=str(params.get("env", "unknown")),
        buffer=buffer,
        seed=_whole_number(params, "seed"),
        total=_whole_number(params, "total_env_steps"),
        settings=settings,
        arguments=arguments,
        parent=str(params.get("fork_from") or ""),
        run_id=str(params.get("run_id") or ""),
    )


def _from_rllib_params(params: Mapping[str, Any], folder: str) -> Description:
    """Return the settings in RLlib's configuration.

    Tune's folders begin with the algorithm and an underscore; Tune calls our SAC ``interreplay.SAC``.
    """
    replay = dict(params.get("replay_buffer_config") or {})
    settings = dict(_plain_settings(params))
    if "capacity" in replay:
        settings["buffer_size"] = replay.pop("capacity")
    kind = _class_name(replay.pop("type", None))
    if kind == "ReplayBuffer":
        kind = _class_name(replay.pop("buffer", kind))
    kind = STOCK_BUFFERS.get(kind, kind)
    if not OWN_SETTINGS & params.keys():
        kind = f"RLlib {kind}"
    return Description(
        algorithm=folder.partition("_")[0].removeprefix("interreplay."),
        env=str(params.get("env", "unknown")),
        buffer=kind,
        seed=_whole_number(params, "seed"),
        settings=settings,
        arguments=format_arguments(replay),
        of_tune=True,
    )


def _plain_settings(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of an RLlib configuration that distinguish methods, without classes, functions and objects.

    A mapping is None, followed by its entries.
    """
    for name, value in params.items():
        if name in NOT_A_METHOD or name.startswith(_HARMLESS):
            continue
        if isinstance(value, dict):
            yield name, None
        for path, entry in flat({name: value}):
            if '"<' not in json.dumps(entry):
                yield path, entry


def _class_name(kind: Any) -> str:
    """Return ``NMER`` from itself, from a dotted path, and from a class as JSON shows it."""
    if not kind:
        return "no replay"
    return re.sub(r"[^\w.]", "", shorten_name(str(kind)).removeprefix("<class")).split(".")[-1]


def read_results(folder: Path) -> tuple[pd.DataFrame, bool, str]:
    """Return the results in the folder of a run, whether Tune marked it as done, and problems of the file.

    The table has a row per result with rising env_steps: the columns of `NAMES`, and diagnostics as
    ``replay_buffer/...``.
    """
    found, note = read_rows(folder)
    rows = []
    for reported in drop_repeated(found):
        row = {name: read_named(reported, name) for name in NAMES}
        for name, value in reported.items():
            if name.startswith(REPLAY):
                row[name] = number(value)
            elif name.removeprefix(LEARNED) in UNROLL_METRICS:
                row[REPLAY + name.removeprefix(LEARNED)] = number(value)
        rows.append(row)
    done = bool(found) and bool(found[-1].get("done"))
    return pd.DataFrame(rows, dtype=float), done, note


@dataclass(frozen=True)
class Run:
    """One run.

    Its `state` is ``"finished"``, ``"unfinished"``, ``"crashed"``, ``"empty"`` or ``"unreadable"``. `results` has a row
    per result, see `read_results`. `method` is the name of the replay method in the report; if it is a short form,
    `full_name` adds the settings. A run `repeats` if another run with the same settings and seed counts instead.
    """

    path: Path
    description: Description
    state: str
    note: str = ""
    results: pd.DataFrame = field(default_factory=pd.DataFrame)
    method: str = ""
    full_name: str = ""
    repeats: bool = False

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, such as ``"SAC"``."""
        return self.description.algorithm

    @property
    def env(self) -> str:
        """Id of the environment."""
        return self.description.env

    @property
    def steps(self) -> int:
        """Environment steps of the last result."""
        return int(self.results["env_steps"].iloc[-1]) if len(self.results) else 0

    def has(self, column: str) -> bool:
        """Return whether any result has a number in this column."""
        return column in self.results and bool(self.results[column].notna().any())


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs in and below some folders, sorted by path.

    Raises:
        UsageError: A folder does not exist, or none contains a run.
    """
    list_planned_runs.cache_clear()
    listed = list(folders)
    paths: set[Path] = set()
    for folder in listed:
        if not folder.is_dir():
            raise UsageError(
                f"{folder} is not a folder; expected a folder with results, such as interreplay train's --output_dir"
            )
        paths.update(map(Path.resolve, _run_folders(folder)))
    runs = list(map(_read, sorted(paths)))
    if not any(run.state != EMPTY or run.description != Description() for run in runs):
        shown = ", ".join(map(str, listed))
        raise UsageError(f"no runs in {shown}; the folder of a run contains result.json and params.json")
    names = method_names([run.description for run in runs])
    found = []
    for run, (short, full) in zip(runs, names, strict=True):
        found.append(replace(run, method=short, full_name=full))
    return _mark_repeats(found)


@functools.lru_cache(maxsize=64)
def list_planned_runs(folder: Path) -> dict[str, Description]:
    """Return the runs of a study by folder name, including runs without a folder; none for other folders."""
    if not (folder / STUDY).is_file():
        return {}
    found = {}
    for run in StudyFolder(folder).read().runs:
        found[run.name] = Description(str(run.trainer), str(run.env), str(run.label), run.seed)
    return found


def _run_folders(top: Path) -> Iterator[Path]:
    """Yield folders with the files of a run, empty folders, the planned runs of studies, and unreadable studies.

    Symbolic links are followed. Each folder is entered once, so that circular links end.
    """
    entered = {os.path.realpath(top)}
    for folder, below, files in os.walk(top, followlinks=True):
        if STUDY in files:
            home = Path(folder).resolve()
            try:
                for name in list_planned_runs(home):
                    yield home / name
            except UsageError:
                yield Path(folder)
        if RUN_FILES & set(files) or not (files or below):
            below.clear()
            yield Path(folder)
        kept = []
        for name in sorted(below):
            target = os.path.realpath(os.path.join(folder, name))
            if not name.startswith((".", "checkpoint_", "best_checkpoint_")) and target not in entered:
                entered.add(target)
                kept.append(name)
        below[:] = kept


def _read(path: Path) -> Run:
    """Return the run in a folder."""
    description = Description()
    try:
        list_planned_runs(path)  # raises an error for the folder of an unreadable study
        description = describe(path)
        with contextlib.suppress(UsageError):  # reported for the study's folder
            plan = list_planned_runs(path.parent).get(path.name)
            if plan is not None:  # its label replaces the name of the method
                description = replace(
                    description, algorithm=plan.algorithm, env=plan.env, buffer=plan.buffer, seed=plan.seed
                )
        table, done, problem = read_results(path)
        state, note = _state(path, description, table, done=done)
        return Run(path, description, state, note="; ".join(filter(None, [note, problem])), results=table)
    except Exception as error:  # damaged files
        note = " ".join(str(error).replace(f"{path}{os.sep}", "").split())[:LONGEST_NOTE]
        return Run(path, description, UNREADABLE, note or f"damaged files ({type(error).__name__})")


def _state(path: Path, description: Description, table: pd.DataFrame, done: bool) -> tuple[str, str]:
    """Return the state of a run and a note about it."""
    error = path / ERROR
    begun = len(table) > 0
    progress = "no result yet"
    place = "before its first result"
    if begun:
        steps = int(table["env_steps"].iloc[-1])
        progress = f"{steps:,} steps"
        if description.total is not None:
            progress = f"{steps:,} of {description.total:,} steps"
        if done or (description.total is not None and steps >= description.total):
            return FINISHED, "resumed after an error" if error.is_file() else ""
        place = f"after {progress}"
    status = TrialFolder(path).status()
    if status["state"] == State.FAILED:  # also if its process was killed, or hung
        return CRASHED, f"{place}: {(status['failures'] or ['unknown error'])[-1][:LONGEST_NOTE]}"
    if begun and status["state"] == State.STOPPED:
        return UNFINISHED, f"{progress}, stopped early by the study's scheduler"
    if error.is_file() and not (begun and table["timestamp"].iloc[-1] > error.stat().st_mtime):
        lines = error.read_text(errors="replace").strip().split("\n")
        return CRASHED, f"{place}: {lines[-1].strip()[:LONGEST_NOTE] or 'unknown error'}"
    return (UNFINISHED, f"{progress}, running or stopped") if begun else (EMPTY, progress)


def _mark_repeats(runs: list[Run]) -> list[Run]:
    """Mark all but one of the runs with the same settings and seed; the one with the most steps counts.

    If it continues a run in another folder, its results begin with those of the other folder.
    """
    groups: dict[object, list[int]] = {}
    for i, run in enumerate(runs):
        if run.description.seed is not None and len(run.results):
            key = [run.algorithm, run.env, run.method, run.description.seed, run.description.parent]
            if run.description.of_tune:  # also settings that some runs lack, which names do not contain
                key.append(repr(sorted(run.description.settings.items())))
            groups.setdefault(tuple(key), []).append(i)
    marked = list(runs)
    for members in groups.values():
        best = max(members, key=lambda i: (runs[i].state == FINISHED, runs[i].steps))
        members.remove(best)
        for i in sorted(members, key=lambda i: runs[i].steps, reverse=True):
            run = runs[i]
            counted = marked[best]
            reason = "same settings and seed as another run"
            earlier = run.results[run.results["env_steps"] < counted.results["env_steps"].iloc[0]]
            if run.description.run_id and run.description.run_id == counted.description.run_id and len(earlier):
                reason = f"continued in {counted.path.name}"
                marked[best] = replace(counted, results=pd.concat([earlier, counted.results], ignore_index=True))
            note = "; ".join(filter(None, [run.note, reason]))
            marked[i] = replace(run, repeats=True, note=note)
    return marked


def method_names(runs: Sequence[Description]) -> list[tuple[str, str]]:
    """Return a short and a full name per run: the replay method, and the settings in which otherwise equal runs differ.

    If runs of one method in one environment differ in a setting, the names of this method contain the setting in all
    environments. A full name that is short is also the short name.
    """
    groups: dict[tuple[str, str, str, bool | None], list[Description]] = defaultdict(list)
    for run in runs:
        if run.settings:
            for of_tune in (None, run.of_tune):  # runs of Tune and others have few names of settings in common
                groups[run.algorithm, run.env, run.buffer, of_tune].append(run)
    varied: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (algorithm, _, buffer, _), members in groups.items():
        varied[algorithm, buffer] |= _differences(members)
    long: dict[str, list[str]] = defaultdict(list)
    names = []
    for run in runs:
        full = run.buffer
        for name in sorted(varied[run.algorithm, run.buffer]):
            value = _value(run, name)
            if run.settings and value is not None:
                full += f", {name}={_text(value)}"
        shown = full
        if len(full) > NAME_LENGTH and full != run.buffer:
            if full not in long[run.buffer]:
                long[run.buffer].append(full)
            shown = f"{run.buffer}, settings {long[run.buffer].index(full) + 1}"
        names.append((shown, full))
    return names


def _differences(runs: Sequence[Description]) -> set[str]:
    """Return the names in which runs differ: settings known for all of them, and arguments of the replay method."""
    known = set.intersection(*(set(run.settings) for run in runs))
    names: set[str] = set()
    for run in runs:
        names |= run.arguments.keys()
        names |= {name for name in run.settings if name.partition("/")[0] in known}  # also entries of mappings
    differing = set()
    for name in names:
        values = {_text(_value(run, name)) for run in runs}
        if len(values) > 1:
            differing.add(name)
    return differing


def _value(run: Description, name: str) -> Any:
    return run.arguments.get(name, run.settings.get(name))


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)
