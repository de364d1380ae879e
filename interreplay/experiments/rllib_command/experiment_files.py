"""Files of experiments: tuned examples, and the flags that change them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError, check_keys
from interreplay.experiments.flags.presets import read_yaml
from interreplay.experiments.rllib_command.experiments import Experiment
from interreplay.runs.run_folder import check_name

KEYS = {
    "run": (str, "the name of an algorithm"),
    "env": (str, "the id of an environment"),
    "stop": (dict, "a mapping such as {env_steps: 10000}"),
    "config": (dict, "a mapping such as {gamma: 0.95}"),
    "num_samples": (int, "a whole number"),
    "checkpoint_freq": (int, "a whole number"),
    "checkpoint_at_end": (bool, "true or false"),
}
"""Keys of an experiment in a file: the type of the value, and what is accepted."""


def read_file(path: Path) -> list[Experiment]:
    """Return the experiments of a file of RLlib's tuned examples, YAML such as ``{name: {run, env, stop, config}}``."""
    contents = read_yaml(path, f"-f {path}")
    if not isinstance(contents, dict) or not contents:
        raise UsageError(f"{path} holds no experiments; expected YAML of the form name: {{run: SAC, env: ...}}")
    experiments = []
    for name, given in contents.items():
        experiments.append(_experiment(f"{path}: {name}", str(name), given))
    return experiments


def _experiment(place: str, name: str, given: Any) -> Experiment:
    """Return an experiment from its settings in a file; `place` begins error messages."""
    check_name(name, f"{place}: the experiment")
    if not isinstance(given, dict):
        raise UsageError(f"{place} is {given!r}; expected {', '.join(KEYS)}")
    given = {key: value for key, value in given.items() if value is not None}
    check_keys(place, given, KEYS)
    for key, value in given.items():
        kind, expected = KEYS[key]
        if not isinstance(value, kind):
            raise UsageError(f"{place}: {key} is {value!r}; expected {expected}")
    config = dict(given.get("config", {}))
    env = config.pop("env", None)
    given = {"env": env} | given | {"config": config}
    if not given.get("run") or not given["env"]:
        raise UsageError(f"{place} lacks run or env")
    return Experiment(name, **given)


def changed(experiments: Sequence[Experiment], flags: Mapping[str, Any]) -> list[Experiment]:
    """Return the experiments of a file overridden by flags; settings are merged."""
    flags = dict(flags)
    name = flags.pop("experiment_name", None)
    config = flags.pop("config", {})
    if name and len(experiments) > 1:
        raise UsageError(f"--experiment_name {name}: the file names its {len(experiments)} experiments; leave it out")
    return [replace(each, **flags, name=name or each.name, config={**each.config, **config}) for each in experiments]


def read_settings(text: str) -> dict[str, Any]:
    """Return a mapping from JSON or YAML, or from a file of either."""
    try:
        source = text
        if not text.lstrip().startswith("{") and os.path.isfile(text):  # also for texts too long for a path
            source = Path(text).read_text()
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
