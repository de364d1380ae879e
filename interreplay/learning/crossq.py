"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): no target networks, batch renormalization over both ends of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.batch_renorm import RenormedMLP
from interreplay.learning.fast.optimizer import FastAdam, FastAdamW
from interreplay.learning.networks import GaussianActor
from interreplay.learning.offers import REDUCIBLE_LOSS
from interreplay.learning.sac import PlainSACUpdate, SACNetworks
from interreplay.learning.soft_settings import CrossQSettings
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import (
    SampleLike,
    actor_row_weights,
    mean_over_views,
    normal,
    repeat_for_views,
    weighted_mean,
)
from interreplay.transitions import Transitions

WIDER = 8
"""How many times as wide as the policy's layers the critics' are by default: 2048 for 256."""


def critic_widths(hiddens: Sequence[int], critic_hiddens: Sequence[int] | str) -> tuple[int, ...]:
    """Return the widths of the critics' hidden layers, `WIDER` times those of the policy for "auto"."""
    return tuple(WIDER * width for width in hiddens) if critic_hiddens == "auto" else tuple(map(int, critic_hiddens))


class CrossQActor(GaussianActor):
    """SAC's policy with batch renormalization; whoever acts does so with the running statistics.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
        warm_up: Training passes before batches are renormalized.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], warm_up: int):
        super().__init__(inputs, actions, hiddens)
        self.body: Any = RenormedMLP(1, [inputs, *hiddens, 2 * actions], warm_up)

    def forward(self, obs: Tensor, noise: Tensor, training: bool = False) -> SquashedGaussianSample:
        """Sample actions as `GaussianActor` does; a training pass changes the running statistics."""
        return SquashedGaussianSample(self.body.outputs(obs, training=training)[0], noise)


class CrossQNetworks(SACNetworks):
    """Actor, critics and the temperature; there are no targets.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the policy's hidden layers.
        *shape: As of `SACNetworks`.
        critic_hiddens: As of `critic_widths`.
        warm_up: Training passes of each network before batches are renormalized.
        **options: As of `SACNetworks`.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        *shape: Any,
        critic_hiddens: Sequence[int] | str = "auto",
        warm_up: int = CrossQSettings.renorm_warm_up,
        **options: Any,
    ):
        self.critic_hiddens, self.warm_up = critic_widths(hiddens, critic_hiddens), warm_up
        super().__init__(inputs, actions, hiddens, *shape, **options)

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        return CrossQActor(inputs, actions, hiddens, self.warm_up)

    def make_critics(
        self, count: int, inputs: int, actions: int, hiddens: Sequence[int], layer_norm: bool, dropout: float
    ) -> RenormedMLP:
        return RenormedMLP(count, [inputs + actions, *self.critic_hiddens, 1], self.warm_up)

    def make_targets(self, *shape: Any) -> nn.Module:
        return nn.ModuleList()

    def reset(self, rng: torch.Generator) -> None:
        self.actor.body.reset(rng)
        self.critics.reset(rng)
        with torch.no_grad():
            self.log_alpha.fill_(math.log(self.initial_alpha))


class CrossQUpdate(PlainSACUpdate):
    """The update of CrossQ: that of SAC, by autograd, without targets and with batches normalized.

    One training pass gives [Q_j(s, a); Q_j(s', a')] for a' ~ π(·|s') of the frozen actor; with
    q_t = r + discounts·(min_j Q_j(s', a') − α log π(a'|s')), through which there is no gradient:

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²);
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) in a training pass of the actor; critics are frozen.

    The statistics of a batch depend on both of its halves, and so do their gradients. β₁ of Adam is .5, but for the
    temperature's.
    """

    adam, adamw, beta_1 = FastAdam, FastAdamW, 0.5
    standard = CrossQSettings()
    offers = PlainSACUpdate.offers - {REDUCIBLE_LOSS}

    def _optimizer(self, parameters: Sequence[Tensor], lr: float, l2: float) -> torch.optim.Optimizer:
        made = super()._optimizer(parameters, lr, l2)
        made.param_groups[0]["betas"] = (self.beta_1, made.param_groups[0]["betas"][1])
        return made

    def judge(
        self, batch: SampleLike, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows, actions = batch.transitions, repeat_for_views(batch.transitions.actions.flatten(1), m)
        with torch.no_grad():
            following = self.networks.actor(next_obs, normal(actions, rng))
        joint = torch.cat([torch.cat([obs, actions], dim=1), torch.cat([next_obs, following.actions], dim=1)])
        values, next_values = self.networks.critics.outputs(joint, training=True).squeeze(-1).chunk(2, dim=1)
        target = self._target(rows, next_values.detach(), following.log_probs, m)
        errors = mean_over_views(values, m) - target
        losses = batch.weights * self.loss_for(batch).values(errors)
        return weighted_mean(losses, batch.row_weights).sum(), errors, values.mean(), target

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return q_t ``(n,)`` of the frozen critics, by which rows are scored that are not learned from."""
        following = self.networks.actor(next_obs, normal(repeat_for_views(rows.actions.flatten(1), m), rng))
        values = self.networks.critics(torch.cat([next_obs, following.actions], dim=1))
        return self._target(rows, values, following.log_probs, m)

    def _target(self, rows: Transitions, next_values: Tensor, log_probs: Tensor, m: int) -> Tensor:
        """Return q_t ``(n,)`` for values ``(critics, n·m)`` and log π ``(n·m,)`` of the next actions."""
        least = next_values.amin(dim=0)
        if self.settings.backup_entropy:
            least = least - self.networks.log_alpha.detach().exp() * log_probs
        return rows.rewards + rows.discounts * mean_over_views(least, m)

    def actor_loss(self, batch: SampleLike, obs: Tensor, alpha: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        sample = self.networks.actor(obs, normal(batch.transitions.actions.flatten(1), rng), training=True)
        inputs = torch.cat([obs, sample.actions], dim=1)
        values = self.judgment(self.networks.critics(inputs, *self.judges(obs, rng)))
        return weighted_mean(alpha * sample.log_probs - values, actor_row_weights(batch)), sample.log_probs.detach()

    def move_targets(self) -> None:
        """Do nothing: there are none."""
