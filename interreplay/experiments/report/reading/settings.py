"""Read the settings of runs, and name methods by the settings in which runs differ."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interreplay.experiments.flags.replay_flags import format_arguments, shorten_name
from interreplay.experiments.flags.run_flags import list_flags, use_current_names
from interreplay.experiments.flags.values import drop_settings
from interreplay.runs.results.reader import flat

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
    (`of_tune`) has all settings of RLlib. `parent` is the checkpoint that a run was forked from.
    """

    algorithm: str = "unknown"
    env: str = "unknown"
    buffer: str = "unknown"
    seed: int | None = None
    total: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    parent: str = ""
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
    )


def _from_rllib_params(params: Mapping[str, Any], folder: str) -> Description:
    """Return the settings in RLlib's configuration; Tune's folders begin with the algorithm and an underscore."""
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
        algorithm=folder.partition("_")[0],
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
