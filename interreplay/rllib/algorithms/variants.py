"""Algorithms that differ from another one only in the defaults of their settings."""

from __future__ import annotations

from typing import Any, TypeVar

from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.rllib.algorithms.loop_config import LoopConfig

Config = TypeVar("Config", bound=LoopConfig)
Algorithm = TypeVar("Algorithm", bound=TrainingLoop)

EXAMPLE = """

Examples:
    >>> from interreplay.rllib import {name}Config
    >>> config = {name}Config().environment("CartPole-v1").training(steps_per_iteration=1_000)
    >>> algorithm = config.build_algo()
    >>> result = algorithm.train()
    >>> algorithm.env_steps >= 1_000
    True
    >>> algorithm.stop()
"""
"""Example in the docstring of a variant's configuration."""


def variant(
    name: str, config: type[Config], algorithm: type[Algorithm], description: str
) -> tuple[type[Config], type[Algorithm]]:
    """Return the configuration and the Algorithm of a variant.

    Args:
        name: Name in the table of algorithms. The classes must be assigned to the names in the table, by which
            checkpoints import them, in the module of `config`.
        config: Configuration that has other defaults.
        algorithm: Algorithm of this configuration.
        description: Docstring of both classes; an example is added for the configuration.
    """
    row = ALGORITHMS[name]
    attributes = {"settings_class": row.settings, "trainer": name, "__doc__": description + EXAMPLE.format(name=name)}
    made: Any = type(row.config, (config,), attributes | {"__module__": config.__module__})
    attributes = {"config_class": made, "__doc__": description}
    return made, type(name, (algorithm,), attributes | {"__module__": algorithm.__module__})
