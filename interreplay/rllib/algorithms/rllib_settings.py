"""RLlib's settings beside our algorithms: which are read, which mean nothing here, and which would be ignored.

RLlib's configuration has some 200 settings, and its own algorithms ignore many of them silently. `rllib_settings.yaml`
lists every one.
"""

from __future__ import annotations

import inspect
from importlib.resources import files
from typing import Any

import yaml
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided

from interreplay.learning.setting_fields import accepted_by

TABLE: dict[str, Any] = yaml.safe_load((files("interreplay.rllib.algorithms") / "rllib_settings.yaml").read_text())

MORE = ("exploration", "replay_buffer_config")
"""Arguments of every `training` beside the settings."""


def check_rllib_settings(config: AlgorithmConfig) -> None:
    """Refuse settings of RLlib's that our algorithms would ignore, where they differ from RLlib's default.

    Raises:
        ValueError: Naming each setting, its value, and what to use instead.
    """
    plain = AlgorithmConfig()
    own: dict[str, Any] = getattr(config, "own_settings", dict)()
    title = type(config).__name__.removesuffix("Config")
    ignored = []
    for name, instead in TABLE["refused"].items():
        # Some versions of Ray lack a few of these settings.
        value = getattr(config, name, None)
        if name not in own and value != getattr(plain, name, None):
            ignored.append(f"{name.lstrip('_')} is {value!r}; {title} does not read it: {instead}")
    if ignored:
        raise ValueError("; ".join(ignored))


def names_of_rllib() -> list[str]:
    """Return names of what RLlib's own `training` takes."""
    return [name for name in inspect.signature(AlgorithmConfig.training).parameters if name != "self"]


def settings_as_properties(cls: type) -> list[str]:
    """Return the names of settings of a configuration that are properties."""
    return [name for name, value in inspect.getmembers(cls) if isinstance(value, property)]


def training_of(cls: Any) -> Any:
    """Return the inherited `training` with the settings of a class in its signature and documentation."""
    inherited = cls.training

    def training(self: Any, **settings: Any) -> Any:
        return inherited(self, **settings)

    own = cls.own_settings()
    kind = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter(name, kind, default=NotProvided, annotation=f.type) for name, f in own.items()]
    listed += [inspect.Parameter(name, kind, default=NotProvided) for name in MORE if name not in own]
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    more = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
    training.__signature__ = inspect.Signature([first, *listed, more])  # type: ignore[attr-defined]
    told = [
        f"    {name}: {f.metadata['help']} (default: {f.default}; {accepted_by(f).described})."
        for name, f in own.items()
    ]
    head = "Set training options: these, `replay_buffer_config`, and RLlib's own.\n\nArgs:\n"
    training.__doc__ = head + "\n".join(told)
    training.__qualname__ = f"{cls.__name__}.training"
    return training
