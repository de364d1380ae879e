"""The table of algorithms: configuration, settings, and the actions that each learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from interreplay.errors import UsageError
from interreplay.learning.actor_critic.soft_settings import CrossQSettings, TQCSettings
from interreplay.learning.policy_gradient.unroll_settings import (
    A2CSettings,
    A3CSettings,
    CLEARSettings,
    IMPALASettings,
    LASERSettings,
)
from interreplay.learning.setting_fields import defaults
from interreplay.learning.settings import DDPGSettings, SACSettings, TD3Settings
from interreplay.learning.value.value_settings import (
    C51Settings,
    DDQNSettings,
    DQNSettings,
    DuelingDQNSettings,
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
        actions: Kinds of action spaces that it learns.
        buffer: Name of the replay method that it learns from where none is named.
        buffer_args: Arguments of this; none of "Uniform".
        unrolls: Whether it learns from unrolls, not from replayed transitions.
        of_run: Defaults of flags of the run that differ from those of other algorithms.
    """

    config: str
    settings: type
    actions: tuple[type[gym.Space], ...] = (gym.spaces.Box,)
    buffer: str = "Uniform"
    buffer_args: Mapping[str, Any] = field(default_factory=dict)
    unrolls: bool = False
    of_run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """Default of each of its settings by name."""
        return defaults(self.settings)


FRESH, MIX = "Fresh", "UnrollMix"
"""What algorithms that learn from unrolls replay: nothing, or some in a mix with fresh ones, by its `parameters`."""

_DISCRETE = (gym.spaces.Discrete,)
_BOTH = (gym.spaces.Box, gym.spaces.Discrete)


def _of_unrolls(config: str, settings: type, steps: int, envs: int, *mix: Mapping[str, Any]) -> Algorithm:
    """Return an algorithm that learns from unrolls of so many steps of so many environments, of a `mix` where given."""
    of_run = {"rollout_fragment_length": steps, "num_envs_per_worker": envs}
    arguments = {"parameters": list(mix)} if mix else {}
    return Algorithm(config, settings, _BOTH, MIX if mix else FRESH, arguments, unrolls=True, of_run=of_run)


_RESERVOIR = {"type": "uniform", "capacity": 10_000, "share": 0.5, "insertion": "reservoir"}
_NEWEST = {"type": "uniform", "capacity": 10_000, "share": 0.75}

ALGORITHMS = {
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
    "Rainbow": Algorithm("RainbowConfig", RainbowSettings, _DISCRETE, "PER", {"alpha": 0.5}),
    "IMPALA": _of_unrolls("IMPALAConfig", IMPALASettings, 20, 32),
    "CLEAR": _of_unrolls("CLEARConfig", CLEARSettings, 20, 32, {"type": "queue", "share": 0.5}, _RESERVOIR),
    "LASER": _of_unrolls("LASERConfig", LASERSettings, 20, 32, {"type": "queue", "share": 0.25}, _NEWEST),
    "A2C": _of_unrolls("A2CConfig", A2CSettings, 5, 16),
    "A3C": _of_unrolls("A3CConfig", A3CSettings, 5, 1),
}

UNROLLS = tuple(name for name, row in ALGORITHMS.items() if row.unrolls)
"""Algorithms that learn from unrolls."""

VARIANTS = frozenset(name for name, row in ALGORITHMS.items() if issubclass(row.settings, DQNSettings))
"""DQN, and what differs from it in its defaults alone."""

_KINDS: dict[type[gym.Space], str] = {
    gym.spaces.Box: "a Box of continuous actions",
    gym.spaces.Discrete: "Discrete ones",
}


def check_actions(trainer: str, env: str, space: gym.Space, flag: str = "--trainer") -> None:
    """Refuse actions that an algorithm does not learn.

    Args:
        trainer: The algorithm.
        env: The environment's id, for the message.
        space: Of its actions.
        flag: That names the algorithm, for the message.

    Raises:
        UsageError: Naming the space.
    """
    if isinstance(space, ALGORITHMS[trainer].actions):
        return
    learning = ", ".join(name for name, algorithm in ALGORITHMS.items() if isinstance(space, algorithm.actions))
    kinds = " or ".join(_KINDS[kind] for kind in ALGORITHMS[trainer].actions)
    hint = f"{flag} {learning} learns it" if learning else "rllib train --run PPO may learn it"
    raise UsageError(f"{trainer} acts in {kinds}; {env} has {space}; {hint}")
