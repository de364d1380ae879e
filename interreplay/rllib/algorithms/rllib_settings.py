"""RLlib's settings beside our algorithms: which are read, which mean nothing here, and which would be ignored.

RLlib's configuration has some 200 settings, and its own algorithms ignore many of them silently. `rllib_settings.yaml`
lists every one.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

TABLE: dict[str, Any] = yaml.safe_load((files("interreplay.rllib.algorithms") / "rllib_settings.yaml").read_text())


def check_rllib_settings(config: AlgorithmConfig) -> None:
    """Refuse settings of RLlib's that our algorithms would ignore, where they differ from RLlib's default.

    Raises:
        ValueError: Naming the setting, its value, and what to use instead.
    """
    plain = AlgorithmConfig()
    for name, instead in TABLE["refused"].items():
        if getattr(config, name) != getattr(plain, name):
            title = type(config).__name__.removesuffix("Config")
            raise ValueError(f"{name.lstrip('_')} is {getattr(config, name)!r}; {title} does not read it: {instead}")
