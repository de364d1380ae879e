"""Files of experiments: tuned examples, the flags that change them, and the record that --resume compares with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.rllib_command.experiments import Experiment
from interreplay.experiments.studies.trial_folder import write_whole
from interreplay.runs.run_folder import check_name

FILE = "experiment.json"
"""Record of an experiment's settings in its folder."""


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
"""Keys of an experiment in a file: the check of the value, and what is accepted."""


def read_file(path: Path) -> list[Experiment]:
    """Return the experiments of a YAML file in the format of RLlib's tuned examples.

    Args:
        path: A file of ``{name: {run, env, stop, config}}``.

    Raises:
        UsageError: The file cannot be read, or contains an unknown key.
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
    """Return the experiments of a file overridden by flags; settings are merged.

    Args:
        experiments: Experiments of a file.
        flags: Flags that were given: ``experiment_name``, ``stop``, ``config``, ``num_samples``, ``checkpoint_freq``.

    Raises:
        UsageError: A name was given for several experiments.
    """
    flags = dict(flags)
    name = flags.pop("experiment_name", None)
    config = flags.pop("config", {})
    if name and len(experiments) > 1:
        raise UsageError(f"--experiment_name {name}: the file holds {len(experiments)} experiments, each with its name")
    return [replace(each, **flags, name=name or each.name, config={**each.config, **config}) for each in experiments]


def read_settings(text: str) -> dict[str, Any]:
    """Return a mapping from JSON or YAML, or from a file of either.

    Raises:
        UsageError: The text is neither.
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


def keep(folder: Path, experiment: Experiment) -> None:
    """Record the settings with which an experiment begins.

    Args:
        folder: The experiment's existing folder.
        experiment: The experiment.
    """
    write_whole(folder / FILE, _text(asdict(experiment)))


def check_unchanged(folder: Path, experiment: Experiment) -> None:
    """Reject settings that Tune ignores on restore, where it uses the recorded ones.

    Args:
        folder: The experiment's folder; without a record nothing is compared.
        experiment: The requested experiment; settings at their default are not compared.

    Raises:
        UsageError: A setting differs from the record.
    """
    if not (folder / FILE).is_file():
        return
    begun = json.loads((folder / FILE).read_text())
    asked = json.loads(_text(asdict(experiment)))
    usual = json.loads(_text(asdict(Experiment("", "", ""))))
    for name, value in asked.items():
        if value != usual[name] and _differs(value, begun.get(name)):
            raise UsageError(
                f"--{name} {value!r}: {folder} was begun with {begun.get(name)!r}, which --resume keeps; "
                "leave it out, or begin another experiment with --experiment_name"
            )


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, default=repr)


def _differs(asked: Any, begun: Any) -> bool:
    """Return whether a requested value differs from the recorded one; mappings are compared by key."""
    if isinstance(asked, dict) and isinstance(begun, dict):
        return any(name not in begun or begun[name] != value for name, value in asked.items())
    return bool(asked != begun)
