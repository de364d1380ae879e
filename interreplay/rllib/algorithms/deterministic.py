"""What DDPG and TD3 share in RLlib: the configuration of a deterministic policy."""

from __future__ import annotations

from typing import Any

from ray.rllib.utils.annotations import override

from interreplay.learning.exploration import make_exploration
from interreplay.learning.setting_fields import defaults
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig

NOISE = {"Gaussian": ("sigma",), "OrnsteinUhlenbeck": ("sigma", "theta")}
"""The arguments of explorations that are settings of their own."""


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy, see `DeterministicSettings`.

    ``exploration`` may also be whatever `OffPolicyConfig` takes.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.exploration = defaults(self.settings_class)["exploration"]

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if isinstance(self.exploration, str):
            arguments = {name: getattr(self, f"exploration_{name}") for name in NOISE.get(self.exploration, ())}
            self.exploration = make_exploration({"type": self.exploration, **arguments})
        super().validate()
        self.update_settings()  # whether they fit each other

    @override(OffPolicyConfig)
    def _check_setting(self, name: str, accepts: Any) -> None:
        if name != "exploration":  # what stands for its name by now has been checked
            super()._check_setting(name, accepts)
