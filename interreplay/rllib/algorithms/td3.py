"""TD3 and DDPG: their configurations and Algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.utils.annotations import override

from interreplay.learning.actor_critic.td3 import TD3Update
from interreplay.learning.exploration import make_exploration
from interreplay.learning.settings import DDPGSettings, TD3Settings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from interreplay.rllib.algorithms.signatures import DDPGTraining, TD3Training

NOISE = {"Gaussian": ("sigma",), "OrnsteinUhlenbeck": ("sigma", "theta")}
"""The arguments of explorations that are separate settings."""


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy, see `DeterministicSettings`.

    ``exploration`` may also be any value that `OffPolicyConfig` accepts.
    """

    update_class = TD3Update

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if isinstance(self.exploration, str):
            arguments: dict[str, Any] = {"type": self.exploration}
            for name in NOISE.get(self.exploration, ()):
                arguments[name] = getattr(self, f"exploration_{name}")
            self.exploration = make_exploration(arguments)
        elif isinstance(self.exploration, Mapping):
            given = dict(self.exploration)
            for name in NOISE.get(str(given.get("type")), ()):
                value = getattr(self, f"exploration_{name}")
                if value != self.own_settings()[f"exploration_{name}"].default:
                    given.setdefault(name, value)
            self.exploration = given
        super().validate()
        for name in ("sigma", "theta"):
            setting = f"exploration_{name}"
            value = getattr(self, setting)
            if value != self.own_settings()[setting].default and not hasattr(self.exploration, name):
                kind = type(self.exploration).__name__
                raise ValueError(
                    f"{setting} is {value} and exploration is {kind}, which has no {name}; "
                    f"expected an exploration with {name}, or no {setting}"
                )


class TD3Config(TD3Training, DeterministicConfig):
    """Twin delayed DDPG with the defaults of its authors' published code (arXiv:1802.09477).

    See `TD3Settings` for the settings.

    Examples:
        >>> from interreplay.rllib import TD3Config
        >>> config = TD3Config().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
        >>> config = config.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=320)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        320
        >>> algorithm.stop()
    """

    settings_class = TD3Settings
    trainer = "TD3"


class TD3(OffPolicyAlgorithm):
    """Twin delayed deep deterministic policy gradient, configured by `TD3Config`."""

    config_class = TD3Config


class DDPGConfig(DDPGTraining, DeterministicConfig):
    """Deep deterministic policy gradient with the defaults of the paper (arXiv:1509.02971).

    In contrast to the paper, actions enter the critic at its first layer, observations are not normalized, and the
    first steps are uniformly random. See `DDPGSettings` for the settings.

    Examples:
        >>> from interreplay.rllib import DDPGConfig
        >>> config = DDPGConfig().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
        >>> config = config.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=320)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        320
        >>> algorithm.stop()
    """

    settings_class = DDPGSettings
    trainer = "DDPG"


class DDPG(OffPolicyAlgorithm):
    """Deep deterministic policy gradient, configured by `DDPGConfig`."""

    config_class = DDPGConfig
