"""What a run was: algorithm, environment, replay method, seed, and the settings that tell methods apart."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interreplay.experiments.flags.part_flags import readable, short
from interreplay.experiments.flags.run_flags import by_name, with_scope

# What params.json holds that does not tell methods apart, or that has a place of its own.
NOT_A_METHOD = with_scope("identity", "execution", "invocation") | {"versions", "buffer", "buffer_args", "prioritized"}
# The settings of an RLlib configuration, which has hundreds, that tell methods apart, by what they are called here.
OF_RLLIB = {
    **{name: name for name in ("gamma", "n_step", "tau", "lr", "actor_lr", "critic_lr", "alpha_lr", "hiddens")},
    **{name: name for name in ("training_intensity", "target_entropy", "initial_alpha")},
    "_train_batch_size_per_learner": "train_batch_size",
    "updates_per_step": "updates_per_step",
    "num_steps_sampled_before_learning_starts": "learning_starts",
}
# Only ours have one of these; RLlib's own algorithms of the same name are other networks and another training loop.
OURS = {"updates_per_step", "steps_per_iteration"}
STOCK_BUFFERS = {"EpisodeReplayBuffer": "uniform", "PrioritizedEpisodeReplayBuffer": "prioritized"}


NAME_LENGTH = 26
"""Names up to this fit beside a line."""
MOST_NESTED = 100
"""Levels of lists and mappings in params.json; those of RLlib have some ten."""


@dataclass(frozen=True)
class Description:
    """A run's settings.

    Attributes:
        algorithm: Such as ``"SAC"``.
        env: The environment's id.
        buffer: The replay method's name; ``"RLlib ..."`` where the algorithm is RLlib's own.
        seed: None where it is not known.
        total: Environment steps that the run was meant to have, None where it is not known.
        settings: What else tells methods apart; what is missing is not known.
        arguments: Those of the replay method; what is missing is at its default.
    """

    algorithm: str = "unknown"
    env: str = "unknown"
    buffer: str = "unknown"
    seed: int | None = None
    total: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


def describe(folder: Path) -> Description:
    """Return the settings of the run in a folder; what is not on disk is read off the folder's name, as far as it goes.

    Raises:
        OSError: ``params.json`` cannot be read.
        ValueError: It holds something else.
    """
    path = folder / "params.json"
    if not path.exists() or not path.stat().st_size:
        return _from_name(folder.name)
    params = json.loads(path.read_text())
    if not isinstance(params, dict):
        raise ValueError("params.json holds no settings")
    if _deeper_than(MOST_NESTED, params):
        raise ValueError(f"params.json is nested more than {MOST_NESTED} levels deep")
    return _of_ours(by_name(params)) if "trainer" in params else _of_rllib(params, folder.name)


def _deeper_than(most: int, value: Any) -> bool:
    """Return whether values are nested in more than `most` levels of mappings and lists."""
    level = [value]
    for _ in range(most):
        level = [part for parent in level for part in _parts(parent)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _whole(params: Mapping[str, Any], name: str) -> int | None:
    """Return a setting that is a whole number, None where it is missing.

    Raises:
        ValueError: It is something else.
    """
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63 or value != int(value):
        raise ValueError(f"params.json: {name} is {str(value)[:50]}; expected a whole number")
    return int(value)


def _of_ours(params: Mapping[str, Any]) -> Description:
    settings = {name: value for name, value in params.items() if name not in NOT_A_METHOD}
    arguments = {name: readable(value) for name, value in (params.get("buffer_args") or {}).items()}
    if params.get("prioritized") is not None:
        arguments["selector"] = "Prioritized"
    algorithm, env, buffer = (str(params.get(name, "unknown")) for name in ("trainer", "env", "buffer"))
    buffer = short(buffer)
    seed = _whole(params, "seed")
    total = _whole(params, "total_env_steps")
    return Description(algorithm, env, buffer, seed, total, settings, arguments)


def _of_rllib(params: Mapping[str, Any], name: str) -> Description:
    replay = params.get("replay_buffer_config")
    replay = dict(replay) if isinstance(replay, dict) else {}
    kind = _last_name(replay.pop("type", None))
    if kind == "ReplayBuffer" and "buffer" in replay:
        kind = _last_name(replay.pop("buffer"))
    kind = STOCK_BUFFERS.get(kind, kind)
    settings = {called: params[key] for key, called in OF_RLLIB.items() if not isinstance(params.get(key, {}), dict)}
    arguments = {key: readable(value) for key, value in replay.items() if key != "capacity"}
    algorithm = name.split("_")[0] if "_" in name else "unknown"
    buffer = kind if OURS & params.keys() else f"RLlib {kind}"
    return Description(
        algorithm, str(params.get("env", "unknown")), buffer, _whole(params, "seed"), None, settings, arguments
    )


def _last_name(kind: Any) -> str:
    """Return ``NMER`` from itself, from a dotted path, and from a class as JSON shows it."""
    return re.sub(r"[^\w.]", "", short(str(kind)).removeprefix("<class")).split(".")[-1] if kind else "no replay"


def _from_name(name: str) -> Description:
    """Read a folder's name: ``SAC_Hopper-v5_NMER_s0_20260101-120000``, or Tune's ``SAC_Hopper-v5_1a2b3_00000_...``."""
    if match := re.match(r"([^_]+)_([^_]+)_([^_]+)_s(\d+)(_|$)", name):
        return Description(match[1], match[2], match[3], int(match[4]))
    match = re.match(r"([^_]+)_([^_]+)_[0-9a-f]{5,8}_\d+(_|$)", name)
    return Description(match[1], match[2]) if match else Description()


def printable(text: str) -> str:
    """Return a text with question marks for what UTF-8 lacks: damaged files and names of folders may hold it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def method_names(runs: Iterable[Description]) -> list[tuple[str, str]]:
    """Return a name per run: the replay method, and those settings in which runs differ that are otherwise alike.

    Runs of one method in one environment that differ in a setting are different methods; the setting is then in
    the names of this method's runs in all environments.

    Returns:
        Short names, and what they stand for, which is the same where it is short itself.
    """
    listed = list(runs)
    groups: dict[tuple[str, str, str], list[Description]] = defaultdict(list)
    for run in listed:
        groups[run.algorithm, run.env, run.buffer].append(run)
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (algorithm, _, buffer), members in groups.items():
        told[algorithm, buffer] |= _differences([run for run in members if run.settings])
    names = [_name(run, sorted(told[run.algorithm, run.buffer])) for run in listed]
    return [(_short(name, run.buffer, names), name) for name, run in zip(names, listed, strict=True)]


def _differences(runs: list[Description]) -> set[str]:
    """Return settings in which runs differ: those that all of them know, and the arguments of the replay method."""
    known = set.intersection(*(set(run.settings) for run in runs)) if runs else set()
    known |= {name for run in runs for name in run.arguments}
    return {name for name in known if len({_shown(_value(run, name)) for run in runs}) > 1}


def _value(run: Description, name: str) -> Any:
    return run.arguments.get(name, run.settings.get(name))


def _name(run: Description, told: list[str]) -> str:
    parts = [f"{name}={_shown(_value(run, name))}" for name in told if _value(run, name) is not None]
    return ", ".join([run.buffer, *parts]) if run.settings else run.buffer


def _short(name: str, buffer: str, names: list[str]) -> str:
    """Return the name itself, or, where it is too long for a figure, a letter for its settings."""
    if len(name) <= NAME_LENGTH or name == buffer:
        return name
    long = sorted({other for other in names if other.startswith(f"{buffer}, ") and len(other) > NAME_LENGTH})
    return f"{buffer}, settings {_letters(long.index(name))}"


def _letters(number: int) -> str:
    return (_letters(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
