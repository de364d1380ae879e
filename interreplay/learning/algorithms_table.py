"""The table of algorithms: configuration, settings and supported action spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from interreplay.environments.own_modules import import_user_class
from interreplay.environments.spaces import ACTIONS, flat_actions, width_is_finite
from interreplay.errors import UsageError
from interreplay.learning.policy_gradient.unroll_settings import (
    A2CSettings,
    A3CSettings,
    CLEARSettings,
    IMPALASettings,
    LASERSettings,
)
from interreplay.learning.setting_fields import defaults
from interreplay.learning.settings import CrossQSettings, DDPGSettings, SACSettings, TD3Settings, TQCSettings
from interreplay.learning.value.value_settings import (
    C51Settings,
    DDQNSettings,
    DQNSettings,
    DuelingDQNSettings,
    IQNSettings,
    NoisyDQNSettings,
    QRDQNSettings,
    RainbowSettings,
)


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    Attributes:
        config: Name of its configuration in `interreplay.rllib`.
        settings: Dataclass of its settings.
        actions: Supported kinds of action spaces.
        buffer: Name of the default replay method.
        buffer_args: Arguments of the default replay method.
        unrolls: Whether it learns from unrolls, not from replayed transitions.
        of_run: Defaults of flags of the run that differ from other algorithms' defaults.
        like: The built-in algorithm whose presets a user's own algorithm uses; "" for built-in algorithms.
    """

    config: str
    settings: type
    actions: tuple[type[gym.Space], ...] = (gym.spaces.Box,)
    buffer: str = "Uniform"
    buffer_args: Mapping[str, Any] = field(default_factory=dict)
    unrolls: bool = False
    of_run: Mapping[str, Any] = field(default_factory=dict)
    like: str = ""

    @property
    def defaults(self) -> dict[str, Any]:
        """Default of each setting by name."""
        return defaults(self.settings)


FRESH = "Fresh"
MIX = "UnrollMix"
"""Replay methods of algorithms that learn from unrolls: fresh unrolls only, or the mix that `parameters` define."""

_DISCRETE = (gym.spaces.Discrete,)
_BOTH = (gym.spaces.Box, gym.spaces.Discrete)


def _make_unroll_algorithm(config: str, settings: type, steps: int, envs: int, *mix: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm that learns from unrolls, by default of `steps` steps of `envs` environments each."""
    of_run = {"rollout_fragment_length": steps, "num_envs_per_worker": envs}
    arguments = {"parameters": list(mix)} if mix else {}
    return Algorithm(
        config, settings, _BOTH, buffer=MIX if mix else FRESH, buffer_args=arguments, unrolls=True, of_run=of_run
    )


_RESERVOIR = {"type": "uniform", "capacity": 10_000, "share": 0.5, "insertion": "reservoir"}
_NEWEST = {"type": "uniform", "capacity": 10_000, "share": 0.75}


class Table(dict[str, Algorithm]):
    """Algorithms by name; a user's algorithm ``module:Class`` is imported on each look-up."""

    def __missing__(self, name: str) -> Algorithm:
        if ":" not in name:
            raise KeyError(name)
        return make_user_algorithm(name)


ALGORITHMS = Table(
    {
        "SAC": Algorithm("SACConfig", SACSettings, _BOTH),
        "TQC": Algorithm("TQCConfig", TQCSettings),
        "CrossQ": Algorithm("CrossQConfig", CrossQSettings),
        "TD3": Algorithm("TD3Config", TD3Settings),
        "DDPG": Algorithm("DDPGConfig", DDPGSettings),
        "DQN": Algorithm("DQNConfig", DQNSettings, _DISCRETE),
        "DDQN": Algorithm("DDQNConfig", DDQNSettings, _DISCRETE),
        "DuelingDQN": Algorithm("DuelingDQNConfig", DuelingDQNSettings, _DISCRETE),
        "NoisyDQN": Algorithm("NoisyDQNConfig", NoisyDQNSettings, _DISCRETE),
        "C51": Algorithm("C51Config", C51Settings, _DISCRETE),
        "QRDQN": Algorithm("QRDQNConfig", QRDQNSettings, _DISCRETE),
        "IQN": Algorithm("IQNConfig", IQNSettings, _DISCRETE),
        "Rainbow": Algorithm("RainbowConfig", RainbowSettings, _DISCRETE, buffer="PER", buffer_args={"alpha": 0.5}),
        "IMPALA": _make_unroll_algorithm("IMPALAConfig", IMPALASettings, 20, 32),
        "CLEAR": _make_unroll_algorithm(
            "CLEARConfig", CLEARSettings, 20, 32, {"type": "queue", "share": 0.5}, _RESERVOIR
        ),
        "LASER": _make_unroll_algorithm(
            "LASERConfig", LASERSettings, 20, 32, {"type": "queue", "share": 0.25}, _NEWEST
        ),
        "A2C": _make_unroll_algorithm("A2CConfig", A2CSettings, 5, 16),
        "A3C": _make_unroll_algorithm("A3CConfig", A3CSettings, 5, 1),
    }
)


def make_user_algorithm(name: str) -> Algorithm:
    """Return the row of a user's algorithm: its own configuration and settings in the row of its built-in base.

    Args:
        name: ``module:Class``.

    Raises:
        UsageError: There is no such class, or its configuration does not derive from a built-in one.
    """
    found = import_user_class(name, object, "trainer")
    bases = getattr(getattr(found, "config_class", None), "__mro__", ())
    configs = {row.config: like for like, row in ALGORITHMS.items()}
    like = ""
    for base in bases:
        if _is_ours(base) and base.__name__ in configs:
            like = configs[base.__name__]
            break
    if not like or not any(map(_is_ours, found.__mro__)):
        raise UsageError(
            f"trainer {name!r}: {found.__name__} is not an algorithm; expected a subclass of OffPolicyAlgorithm or of "
            "another algorithm of interreplay.rllib, with a config_class that derives from one of its configurations"
        )
    return replace(ALGORITHMS[like], config=name, settings=found.config_class.settings_class, like=like)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("interreplay.rllib.")


def is_algorithm(name: str) -> bool:
    """Return whether a built-in algorithm has this name, or the name has the form ``module:Class``."""
    return name in ALGORITHMS or ":" in name


def get_built_in(name: str) -> str:
    """Return the built-in algorithm whose presets apply: `name`, or the base of a user's own algorithm."""
    return ALGORITHMS[name].like or name


UNROLLS = tuple(name for name, row in ALGORITHMS.items() if row.unrolls)
"""Algorithms that learn from unrolls."""

VARIANTS = frozenset(name for name, row in ALGORITHMS.items() if issubclass(row.settings, DQNSettings))
"""DQN and the algorithms that differ from it only in their defaults."""


def get_architecture(trainer: str) -> str:
    """Return the name of an algorithm's architecture in `interreplay.learning.architectures`."""
    name = get_built_in(trainer)
    if name in VARIANTS:
        return "DQN"
    return "IMPALA" if ALGORITHMS[name].unrolls else name


def check_actions(trainer: str, env: str, space: gym.Space, flag: str = "--trainer") -> None:
    """Reject action spaces that an algorithm does not support.

    Args:
        trainer: Name of the algorithm.
        env: Id of the environment, for the message.
        space: Action space of the environment.
        flag: Flag that names the algorithm, for the message.

    Raises:
        UsageError: The algorithm does not support the space.
    """
    flat = flat_actions(space)
    if isinstance(flat, ALGORITHMS[trainer].actions):
        if isinstance(flat, gym.spaces.Box) and not flat.is_bounded():
            raise UsageError(f"{trainer} requires finite bounds of actions; the action space of {env} is {space}")
        if isinstance(flat, gym.spaces.Box) and not width_is_finite(flat):
            raise UsageError(
                f"{trainer} requires bounds of actions with a finite difference; the action space of {env} is {space}"
            )
        return
    learning = ", ".join(name for name, algorithm in ALGORITHMS.items() if isinstance(flat, algorithm.actions))
    kinds = " or ".join(ACTIONS[kind] for kind in ALGORITHMS[trainer].actions)
    hint = f"use {flag} {learning}" if learning else "try rllib train --run PPO"
    raise UsageError(f"{trainer} requires {kinds}; the action space of {env} is {space}; {hint}")
