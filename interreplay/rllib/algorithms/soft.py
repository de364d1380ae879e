"""What the algorithms with a squashed Gaussian and a temperature share in RLlib."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.rllib.algorithms.module import flat_size
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class SoftConfig(OffPolicyConfig):
    """Temperature and target entropy; continuous actions."""

    alpha_lr: Any
    initial_alpha: float
    target_entropy: float | str

    def soft_settings(self, module: RLModule) -> dict[str, Any]:
        """Return the arguments that the updates of these algorithms take."""
        size, target = flat_size(module.action_space), self.target_entropy
        own = {"target_entropy": -float(size) if target == "auto" else target, "alpha_lr": self.rates(0)["alpha"]}
        return own | self.update_settings()

    @property
    @override(OffPolicyConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"initial_alpha": self.initial_alpha}
