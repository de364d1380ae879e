"""Read the settings of runs, and name methods by the settings in which runs differ."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interreplay.experiments.flags.replay_flags import readable, short
from interreplay.experiments.flags.run_flags import by_name, with_scope

# Entries of params.json that do not distinguish methods, or have a field of `Description`.
NOT_A_METHOD = with_scope("identity", "execution", "invocation") | {"versions", "buffer", "buffer_args", "prioritized"}
# Settings of RLlib configurations (which have hundreds) that distinguish methods, with their names here.
RLLIB_SETTINGS = {
    **{name: name for name in ("gamma", "n_step", "tau", "lr", "actor_lr", "critic_lr", "alpha_lr", "hiddens")},
    **{name: name for name in ("training_intensity", "target_entropy", "initial_alpha")},
    "_train_batch_size_per_learner": "train_batch_size",
    "updates_per_step": "updates_per_step",
    "num_steps_sampled_before_learning_starts": "learning_starts",
}
# Only configurations of this package have these; RLlib's algorithms of the same name train differently.
OWN_SETTINGS = {"updates_per_step", "steps_per_iteration"}
STOCK_BUFFERS = {"EpisodeReplayBuffer": "uniform", "PrioritizedEpisodeReplayBuffer": "prioritized"}
NAME_LENGTH = 26
"""Longer names are replaced by a letter in figures."""
DEEPEST = 100
"""Levels of nesting in params.json; RLlib's have about ten."""


@dataclass(frozen=True)
class Description:
    """Settings of a run.

    Attributes:
        algorithm: Name of the algorithm, such as ``"SAC"``.
        env: Id of the environment.
        buffer: Name of the replay method; ``"RLlib ..."`` for RLlib's own algorithms.
        seed: None if unknown.
        total: Planned environment steps, None if unknown.
        settings: Other settings that distinguish methods; missing settings are unknown.
        arguments: Arguments of the replay method; missing arguments have their defaults.
    """

    algorithm: str = "unknown"
    env: str = "unknown"
    buffer: str = "unknown"
    seed: int | None = None
    total: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


def describe(folder: Path) -> Description:
    """Return the settings of the run in a folder; without ``params.json``, those in the name of the folder.

    Raises:
        OSError: ``params.json`` cannot be read.
        ValueError: It has another format.
    """
    path = folder / "params.json"
    if not path.exists() or not path.stat().st_size:
        # SAC_Hopper-v5_NMER_s0_20260101-120000, or Tune's SAC_Hopper-v5_1a2b3_00000_...
        if match := re.match(r"([^_]+)_([^_]+)_([^_]+)_s(\d+)(_|$)", folder.name):
            return Description(match[1], match[2], match[3], int(match[4]))
        match = re.match(r"([^_]+)_([^_]+)_[0-9a-f]{5,8}_\d+(_|$)", folder.name)
        return Description(match[1], match[2]) if match else Description()
    params = json.loads(path.read_text())
    if not isinstance(params, dict):
        raise ValueError("params.json holds no settings")
    if _is_deeper_than(DEEPEST, params):
        raise ValueError(f"params.json is nested more than {DEEPEST} levels deep")
    return _from_own_params(by_name(params)) if "trainer" in params else _from_rllib_params(params, folder.name)


def _is_deeper_than(levels: int, value: Any) -> bool:
    """Return whether mappings and lists are nested in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner.extend(part.values())
            elif isinstance(part, list):
                inner.extend(part)
        if not inner:
            return False
        level = inner
    return True


def _whole_number(params: Mapping[str, Any], name: str) -> int | None:
    """Return an integer setting, None if it is missing.

    Raises:
        ValueError: It is not a whole number.
    """
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63 or value != int(value):
        raise ValueError(f"params.json: {name} is {str(value)[:50]}; expected a whole number")
    return int(value)


def _from_own_params(params: Mapping[str, Any]) -> Description:
    arguments = {name: readable(value) for name, value in (params.get("buffer_args") or {}).items()}
    if params.get("prioritized") is not None:
        arguments["selector"] = "Prioritized"
    return Description(
        algorithm=str(params.get("trainer", "unknown")),
        env=str(params.get("env", "unknown")),
        buffer=short(str(params.get("buffer", "unknown"))),
        seed=_whole_number(params, "seed"),
        total=_whole_number(params, "total_env_steps"),
        settings={name: value for name, value in params.items() if name not in NOT_A_METHOD},
        arguments=arguments,
    )


def _from_rllib_params(params: Mapping[str, Any], folder: str) -> Description:
    replay = params.get("replay_buffer_config")
    replay = dict(replay) if isinstance(replay, dict) else {}
    kind = _class_name(replay.pop("type", None))
    if kind == "ReplayBuffer" and "buffer" in replay:
        kind = _class_name(replay.pop("buffer"))
    kind = STOCK_BUFFERS.get(kind, kind)
    settings = {}
    for key, name in RLLIB_SETTINGS.items():
        if not isinstance(params.get(key, {}), dict):
            settings[name] = params[key]
    return Description(
        algorithm=folder.split("_")[0] if "_" in folder else "unknown",
        env=str(params.get("env", "unknown")),
        buffer=kind if OWN_SETTINGS & params.keys() else f"RLlib {kind}",
        seed=_whole_number(params, "seed"),
        settings=settings,
        arguments={key: readable(value) for key, value in replay.items() if key != "capacity"},
    )


def _class_name(kind: Any) -> str:
    """Return ``NMER`` from itself, from a dotted path, and from a class as JSON shows it."""
    if not kind:
        return "no replay"
    return re.sub(r"[^\w.]", "", short(str(kind)).removeprefix("<class")).split(".")[-1]


def printable(text: str) -> str:
    """Replace characters that UTF-8 lacks; damaged files and folder names can contain them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def method_names(runs: Iterable[Description]) -> list[tuple[str, str]]:
    """Return a name per run: the replay method, and the settings in which otherwise equal runs differ.

    If runs of one method in one environment differ in a setting, the names of this method contain the setting in
    all environments.

    Returns:
        Short names, and full names; both are equal if the full name is short.
    """
    listed = list(runs)
    groups: dict[tuple[str, str, str], list[Description]] = defaultdict(list)
    for run in listed:
        groups[run.algorithm, run.env, run.buffer].append(run)
    varied: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (algorithm, _, buffer), members in groups.items():
        varied[algorithm, buffer] |= _differences([run for run in members if run.settings])
    names = [_full_name(run, sorted(varied[run.algorithm, run.buffer])) for run in listed]
    long = sorted({name for name in names if len(name) > NAME_LENGTH})
    pairs = []
    for name, run in zip(names, listed, strict=True):
        shown = name
        if name in long and name != run.buffer:
            same_buffer = [other for other in long if other.startswith(f"{run.buffer}, ")]
            shown = f"{run.buffer}, settings {_letters(same_buffer.index(name))}"
        pairs.append((shown, name))
    return pairs


def _differences(runs: list[Description]) -> set[str]:
    """Return the settings in which runs differ: those known of all of them, and arguments of the replay method."""
    known = set.intersection(*(set(run.settings) for run in runs)) if runs else set()
    for run in runs:
        known |= run.arguments.keys()
    return {name for name in known if len({_text(_value(run, name)) for run in runs}) > 1}


def _value(run: Description, name: str) -> Any:
    return run.arguments.get(name, run.settings.get(name))


def _full_name(run: Description, varied: list[str]) -> str:
    parts = [run.buffer]
    for name in varied if run.settings else ():
        if _value(run, name) is not None:
            parts.append(f"{name}={_text(_value(run, name))}")
    return ", ".join(parts)


def _letters(number: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    return (_letters(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
