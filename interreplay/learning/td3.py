"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.learning.deterministic import DeterministicNetworks, DeterministicUpdate
from interreplay.learning.update import normal


class TD3Update(DeterministicUpdate):
    """The update of TD3: twin critics, smoothed targets, a policy and targets that follow at every d-th update.

    a' = clip(π'(s') + clip(ε, −c, c), −1, 1), ε ~ N(0, σ²).

    Args:
        networks: What is learned.
        policy_delay: d.
        target_policy_noise: σ.
        target_noise_clip: c.
        **settings: Those of `DeterministicUpdate`.
    """

    def __init__(
        self,
        networks: DeterministicNetworks,
        policy_delay: int = 2,
        target_policy_noise: float = 0.2,
        target_noise_clip: float = 0.5,
        **settings: Any,
    ):
        super().__init__(networks, **settings)
        self.policy_delay = policy_delay
        self.target_policy_noise, self.target_noise_clip = target_policy_noise, target_noise_clip

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        actions = self.networks.target_actor(next_obs)
        noise = normal(actions, rng).mul_(self.target_policy_noise)
        return (actions + noise.clamp_(-self.target_noise_clip, self.target_noise_clip)).clamp_(-1.0, 1.0)

    def actor_due(self) -> bool:
        return self.updates % self.policy_delay == 0
