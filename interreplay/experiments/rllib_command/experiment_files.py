"""Experiments as people give them: files of tuned examples, and what flags change about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.rllib_command.experiments import Experiment
from interreplay.runs.run_folder import check_name


def _whole(low: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low


KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "run": (lambda value: isinstance(value, str), "the name of an algorithm"),
    "env": (lambda value: isinstance(value, str), "the id of an environment"),
    "stop": (lambda value: isinstance(value, dict | None), "a mapping such as {env_steps: 10000}"),
    "config": (lambda value: isinstance(value, dict | None), "a mapping such as {gamma: 0.95}"),
    "num_samples": (_whole(1), "a whole number of at least 1"),
    "checkpoint_freq": (_whole(0), "a whole number of at least 0"),
    "checkpoint_at_end": (lambda value: isinstance(value, bool), "true or false"),
}
"""What a file may say of an experiment: whether a value will do, and what would."""


def read_file(path: Path) -> list[Experiment]:
    """Return the experiments of a YAML file in the format of RLlib's tuned examples.

    Args:
        path: A file of ``{name: {run, env, stop, config}}``.

    Raises:
        UsageError: It cannot be read, or holds something unknown.
    """
    if not path.is_file():
        raise UsageError(f"-f {path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        contents = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"-f {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(contents, dict) or not contents:
        raise UsageError(f"{path} holds no experiments; expected YAML of the form name: {{run: SAC, env: ...}}")
    return [_experiment(str(path), str(name), given) for name, given in contents.items()]


def _experiment(path: str, name: str, given: Any) -> Experiment:
    check_name(name, f"{path}: the experiment")
    given = dict(given) if isinstance(given, dict) else {}
    config = given.get("config")
    if "env" not in given and isinstance(config, dict) and "env" in config:
        given["env"] = config["env"]
    for key, value in given.items():
        if key not in KEYS:
            raise UsageError(f"{path}: {name}: unknown {key!r}; {accepted_names(str(key), KEYS)}")
        accepts, expected = KEYS[key]
        if not accepts(value):
            raise UsageError(f"{path}: {name}: {key} is {value!r}; expected {expected}")
    if not given.get("run") or not given.get("env"):
        raise UsageError(f"{path}: {name} lacks run or env")
    settings = {key: value for key, value in (config or {}).items() if key != "env"}
    return Experiment(name, **given | {"stop": given.get("stop") or {}, "config": settings})


def changed(experiments: Sequence[Experiment], flags: Mapping[str, Any]) -> list[Experiment]:
    """Return the experiments of a file with what flags say in place of what it says; settings are merged one by one.

    Args:
        experiments: Of a file.
        flags: Those that were given: ``experiment_name``, ``stop``, ``config``, ``num_samples``, ``checkpoint_freq``.

    Raises:
        UsageError: One name for several experiments.
    """
    flags = dict(flags)
    name, config = flags.pop("experiment_name", None), flags.pop("config", {})
    if name and len(experiments) > 1:
        raise UsageError(f"--experiment_name {name}: the file holds {len(experiments)} experiments, each with its name")
    return [replace(each, **flags, name=name or each.name, config={**each.config, **config}) for each in experiments]


def read_settings(text: str) -> dict[str, Any]:
    """Return a mapping from JSON or YAML, or from a file of either.

    Raises:
        UsageError: It is neither.
    """
    try:
        is_file = not text.lstrip().startswith("{") and Path(text).is_file()
        source = Path(text).read_text() if is_file else text
        try:
            value = json.loads(source)
        except ValueError:
            value = yaml.safe_load(source)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{text!r} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise UsageError(
            f"{text!r} is not a mapping; expected JSON or YAML such as '{{\"gamma\": 0.95}}', or a file of it"
        )
    return value
