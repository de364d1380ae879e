"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.learning.deterministic import DeterministicNetworks, DeterministicUpdate


class DDPGUpdate(DeterministicUpdate):
    """The update of DDPG: one critic or more, actor and targets in every update, a' = π'(s').

    Args:
        networks: What is learned.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        tau: Share of the way that targets move per update.
        **settings: The others of `DeterministicUpdate`.
    """

    def __init__(
        self,
        networks: DeterministicNetworks,
        actor_lr: float = 1e-4,
        critic_lr: float = 1e-3,
        tau: float = 0.001,
        **settings: Any,
    ):
        super().__init__(networks, actor_lr, critic_lr, tau, **settings)

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        return self.networks.target_actor(next_obs)
