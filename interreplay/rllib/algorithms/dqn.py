"""DQN: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any, ClassVar

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.setting_fields import rate_at
from interreplay.learning.update import Update
from interreplay.learning.value.dqn import ConfiguredEpsilon, DQNUpdate
from interreplay.learning.value.value_settings import DQNSettings
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class DQNModule(OffPolicyModule):
    """The network as a policy, and the target network."""

    architecture = ARCHITECTURES["DQN"]


class DQNConfig(OffPolicyConfig):
    """Deep Q-networks, with every part of Rainbow as a setting of `DQNSettings`.

    ```python
    config = DQNConfig().environment("CartPole-v1").training(double=True).replay("PER", capacity=100_000)
    ```
    """

    settings_class = DQNSettings
    module_class = DQNModule
    update_class: ClassVar[Any] = DQNUpdate

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        self.exploration = None

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if self.exploration is None or isinstance(self.exploration, ConfiguredEpsilon):
            for name in ("initial_epsilon", "final_epsilon", "epsilon_steps"):
                self._check_setting(name, self.own_settings()[name].metadata["accepts"])
            self.exploration = ConfiguredEpsilon(self.initial_epsilon, self.final_epsilon, steps=self.epsilon_steps)
        super().validate()
        if self.matrix_dtype != "float32" and (self.dueling or self.noisy):
            raise ValueError(f"matrix_dtype is {self.matrix_dtype!r}; expected 'float32' with dueling or noisy layers")

    @override(OffPolicyConfig)
    def rates(self, env_steps: int) -> dict[str, float]:
        return {"q": rate_at(self.lr, env_steps)}

    @property
    @override(OffPolicyConfig)
    def has_schedules(self) -> bool:
        return isinstance(self.lr, list | tuple)

    @override(OffPolicyConfig)
    def make_update(self, module: RLModule) -> Update:
        names = ("double", "optimizer", "optimizer_eps", "tau", "target_update_period", "grad_clip", "grad_clip_by")
        options = {name: getattr(self, name) for name in names}
        return self.update_class(module.nets, lr=self.rates(0)["q"], **options)


class DQN(OffPolicyAlgorithm):
    """Deep Q-networks on the fast path."""

    config_class = DQNConfig
