"""TD3: its configuration, its RLModule, its Learner, its Algorithm."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.learning.td3 import PlainTD3Update, TD3Update
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.deterministic import DeterministicConfig, DeterministicModule
from interreplay.rllib.algorithms.learner import OffPolicyLearner
from interreplay.rllib.algorithms.off_policy import OffPolicy


class TD3Config(DeterministicConfig):
    """Twin delayed DDPG with the defaults of its authors' published code (arXiv:1802.09477).

    ```python
    config = TD3Config().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```

    Attributes:
        policy_delay: Updates of the critics per update of the actor and the targets.
        target_policy_noise: Standard deviation of the noise on the target actor's actions.
        target_noise_clip: Bound of that noise.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or TD3)
        self.policy_delay = 2
        self.target_policy_noise = 0.2
        self.target_noise_clip = 0.5

    @override(DeterministicConfig)
    def training(
        self,
        *,
        policy_delay: int | Any = NotProvided,
        target_policy_noise: float | Any = NotProvided,
        target_noise_clip: float | Any = NotProvided,
        **settings: Any,
    ) -> Self:
        """Set training options; see the class, `OffPolicyConfig.training`, and RLlib for those not named here."""
        given = {k: v for k, v in locals().items() if k not in ("self", "settings", "__class__")}
        super().training(**settings)
        self._set(given)
        return self

    @override(DeterministicConfig)
    def validate(self) -> None:
        super().validate()
        if not isinstance(self.policy_delay, int) or self.policy_delay < 1:
            raise ValueError(f"policy_delay is {self.policy_delay!r}; expected a whole number of at least 1")
        self._check_range("target_policy_noise", 0)
        self._check_range("target_noise_clip", 0)

    @override(DeterministicConfig)
    def update_settings(self) -> dict[str, Any]:
        names = ("policy_delay", "target_policy_noise", "target_noise_clip")
        return super().update_settings() | {name: getattr(self, name) for name in names}

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=TD3Module)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return TD3Learner


class TD3Module(DeterministicModule):
    """Two critics."""

    critics = 2


class TD3Learner(OffPolicyLearner):
    """Learns a `TD3Module`."""

    @override(OffPolicyLearner)
    def make_update(self, module: RLModule) -> Update:
        kind = TD3Update if self.config.fast_updates else PlainTD3Update
        return kind(module.nets, **self.config.update_settings())


class TD3(OffPolicy):
    """Twin delayed deep deterministic policy gradient on the fast path."""

    @classmethod
    @override(OffPolicy)
    def get_default_config(cls) -> TD3Config:
        return TD3Config()
