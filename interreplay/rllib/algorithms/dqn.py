"""DQN and its variants: their configurations and Algorithms."""

from __future__ import annotations

from typing import Any, ClassVar

from ray.rllib.utils.annotations import override

from interreplay.learning.listed.layers import name_layers
from interreplay.learning.setting_fields import check_without_effect, rate_at
from interreplay.learning.update import Update
from interreplay.learning.value.dqn import ConfiguredEpsilon, DQNUpdate
from interreplay.learning.value.value_settings import EPSILON, DQNSettings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from interreplay.rllib.algorithms.signatures import DQNTraining
from interreplay.rllib.algorithms.variants import variant


class DQNConfig(DQNTraining, OffPolicyConfig):
    """Deep Q-networks, with every part of Rainbow as a setting of `DQNSettings`.

    Examples:
        >>> from interreplay.rllib import DQNConfig
        >>> config = DQNConfig().environment("CartPole-v1").replay("PER", capacity=10_000)
        >>> config = config.training(double=True, num_steps_sampled_before_learning_starts=100, steps_per_iteration=200)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        200
        >>> algorithm.stop()
    """

    settings_class: ClassVar[type] = DQNSettings
    trainer = "DQN"
    update_class: ClassVar[Any] = DQNUpdate

    # Fields of `DQNSettings`, set in the constructor.
    distribution: str
    dueling: bool
    epsilon_steps: int
    final_epsilon: float
    initial_epsilon: float
    noisy: bool

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if self.exploration is None or isinstance(self.exploration, ConfiguredEpsilon):
            for name in EPSILON:
                self._check_setting(name, self.own_settings()[name].metadata["accepts"])
            self.exploration = ConfiguredEpsilon(self.initial_epsilon, self.final_epsilon, steps=self.epsilon_steps)
        super().validate()
        if not isinstance(self.exploration, ConfiguredEpsilon):
            check_without_effect(self.update_settings(), EPSILON, "an exploration is set", expected="no exploration")
        network = self.network or {}
        listed: set[str] = set()
        for layers in network.values():
            listed.update(layer.kind for layer in name_layers(layers))
        if self.dueling and "q" in network:
            raise ValueError("dueling is True and network lists q; expected value and advantage, or dueling False")
        has_noise = self.noisy
        if network:
            has_noise = "NoisyLinear" in listed or any(":" in kind for kind in listed)
        if self.noisy and not has_noise:
            raise ValueError(
                "noisy is True and network lists no NoisyLinear; expected NoisyLinear in network, or noisy False"
            )
        by_noise = self.own_settings()["noisy"].default and isinstance(self.exploration, ConfiguredEpsilon)
        if by_noise and self.collect and not (has_noise or self.initial_epsilon or self.final_epsilon):
            raise ValueError("noisy is False and epsilon is 0; expected noisy True, or an initial_epsilon above 0")
        implicit = self.distribution == "implicit"
        if self.matrix_dtype != "float32" and (
            implicit or self.dueling or self.noisy or "value" in network or "NoisyLinear" in listed
        ):
            kinds = "implicit quantiles" if implicit else "dueling or noisy layers"
            raise ValueError(f"matrix_dtype is {self.matrix_dtype!r}; expected 'float32' with {kinds}")

    @override(OffPolicyConfig)
    def rates(self, env_steps: int) -> dict[str, float]:
        return {"q": rate_at(self.lr, env_steps)}

    @override(OffPolicyConfig)
    def make_update(self, module: Any) -> Update:
        return self.update_class(module.nets, self.update_settings(), lr=self.rates(0)["q"])


class DQN(OffPolicyAlgorithm):
    """Deep Q-networks and their variants, configured by `DQNConfig`."""

    config_class = DQNConfig


DDQNConfig, DDQN = variant("DDQN", DQNConfig, DQN, "Double DQN (van Hasselt et al. 2016, arXiv:1509.06461).")
DuelingDQNConfig, DuelingDQN = variant(
    "DuelingDQN", DQNConfig, DQN, "Dueling networks, learned as double DQN (Wang et al. 2016, arXiv:1511.06581)."
)
NoisyDQNConfig, NoisyDQN = variant(
    "NoisyDQN", DQNConfig, DQN, "DQN that explores with noisy layers (Fortunato et al. 2018, arXiv:1706.10295)."
)
C51Config, C51 = variant(
    "C51", DQNConfig, DQN, "A categorical distribution of returns (Bellemare et al. 2017, arXiv:1707.06887)."
)
QRDQNConfig, QRDQN = variant(
    "QRDQN", DQNConfig, DQN, "DQN with quantile regression (Dabney et al. 2018, arXiv:1710.10044)."
)
IQNConfig, IQN = variant("IQN", DQNConfig, DQN, "Implicit quantile networks (Dabney et al. 2018, arXiv:1806.06923).")
RainbowConfig, Rainbow = variant(
    "Rainbow",
    DQNConfig,
    DQN,
    "Rainbow DQN: double, dueling, noisy, categorical, 3-step returns, and PER with α = 0.5 "
    "(Hessel et al. 2018, arXiv:1710.02298).",
)
