"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): no target networks, joint batch renormalization of s, a and s', a'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, CriticLosses, PolicyLosses, next_noise
from interreplay.learning.actor_critic.sac import SOFT_METRICS, GaussianActor, SACNetworks, soft_losses, soft_target
from interreplay.learning.networks.batch_renorm import RenormedMLP
from interreplay.learning.networks.distributions import sample_squashed_gaussian
from interreplay.learning.settings import CrossQSettings
from interreplay.learning.update import REDUCIBLE_LOSS, Batch, flat_rows, mean_over_views, normal
from interreplay.transitions import Transitions

WIDER = 8
"""Ratio of the default widths of the critics' and the policy's hidden layers: 2048 for 256."""


class CrossQActor(GaussianActor):
    """SAC's policy with batch renormalization; acting uses the running statistics."""

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], warm_up: int):
        super().__init__(inputs, actions, hiddens)
        self.body: Any = RenormedMLP(1, [inputs, *hiddens, 2 * actions], warm_up)

    def forward(self, obs: Tensor, noise: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Sample actions as `GaussianActor` does; a training pass changes the running statistics."""
        return sample_squashed_gaussian(self.body.outputs(obs, training=training)[0], noise)


class CrossQNetworks(SACNetworks):
    """Actor, critics and the temperature; there are no target networks.

    Args:
        *shape: As in `SACNetworks`; `hiddens` are the policy's widths.
        critic_hiddens: Widths of the critics' hidden layers; "auto" means `WIDER` times the policy's widths.
        renorm_warm_up: Training passes of each network before batches are renormalized.
        **options: As in `SACNetworks`.
    """

    def __init__(
        self,
        *shape: Any,
        critic_hiddens: Sequence[int] | str = "auto",
        renorm_warm_up: int = CrossQSettings.renorm_warm_up,
        **options: Any,
    ):
        self.critic_hiddens = critic_hiddens
        self.warm_up = renorm_warm_up
        super().__init__(*shape, **options)

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int], *residual: int) -> Any:
        return CrossQActor(inputs, actions, hiddens, self.warm_up)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> RenormedMLP:
        widths = self.critic_hiddens
        if widths == "auto":
            widths = [WIDER * width for width in hiddens]
        return RenormedMLP(count, [inputs + actions, *map(int, widths), 1], self.warm_up)

    def make_targets(self, of_actor: Sequence[Any], of_critics: Sequence[Any]) -> None:
        self.targets = nn.ModuleList()

    def copy_to_targets(self) -> None:
        """Do nothing, because CrossQ has no target networks."""


class CrossQUpdate(ActorCriticUpdate):
    """The update of CrossQ: critics, actor and temperature, in this order.

    One training pass returns [Q_j(s, a); Q_j(s', a')] for a' ~ π(·|s') of the frozen actor. With
    q_t = r + discounts·(min_j Q_j(s', a') − α log π(a'|s')), which has no gradient:

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²);
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) in a training pass of the actor; critics are frozen;
    * temperature: as in SAC.

    The statistics of a batch depend on both of its halves, and so do their gradients. β₁ of Adam is .5 for actor and
    critics.
    """

    metrics = SOFT_METRICS
    betas = (0.5, 0.999)
    standard = CrossQSettings()
    offers = ActorCriticUpdate.offers - {REDUCIBLE_LOSS}

    def critic_losses(self, batch: Batch, obs: Tensor, next_obs: Tensor, m: int, rng: Any) -> CriticLosses:
        rows = batch.transitions
        with torch.no_grad():
            next_actions, next_log_probs = self.networks.actor(next_obs, next_noise(rows, m, rng))
        inputs = torch.cat(self.critic_inputs(rows, obs, m), dim=1)
        joint = torch.cat([inputs, torch.cat([next_obs, next_actions], dim=1)])
        values, next_values = self.networks.critics.outputs(joint, training=True).squeeze(-1).chunk(2, dim=1)
        target = soft_target(self, rows, self.combine(next_values.detach()), log_probs=next_log_probs, m=m)
        errors = mean_over_views(values, m) - target
        return self.critic_loss(errors, batch), errors, target

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        noise = normal(flat_rows(rows.actions), rng)
        actions, log_probs = self.networks.actor(obs, noise, training=True)
        values = self.values_for_actor([obs, actions], rng).squeeze(-1)
        return soft_losses(self, log_probs, values, weights)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return q_t ``(n,)`` under the running statistics, for the scores of rows that are not learned from."""
        actions, log_probs = self.networks.actor(next_obs, next_noise(rows, m, rng))
        values = self.combine(self.networks.critics.outputs([next_obs, actions])).squeeze(-1)
        return soft_target(self, rows, values, log_probs=log_probs, m=m)
