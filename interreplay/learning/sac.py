"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from interreplay.learning.encoders import Flat
from interreplay.learning.fast.sac import FastSACUpdate
from interreplay.learning.networks import BatchedMLP, Critics, GaussianActor
from interreplay.learning.settings import SACSettings
from interreplay.learning.soft_update import SoftUpdate
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import (
    SampleLike,
    UpdateResult,
    actor_row_weights,
    mean_over_views,
    normal,
    repeat_for_views,
    views,
    weighted_mean,
)
from interreplay.transitions import Transitions


class SACNetworks(nn.Module):
    """Actor, critics, their targets and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
        critics: Their number m.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which their units are left out while learning.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
        critics: int = SACSettings.n_critics,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = self.make_actor(inputs, actions, hiddens)
        if inference_only:
            return
        shape = critics, inputs, actions, hiddens, layer_norm, dropout
        self.critics = self.make_critics(*shape)
        self.targets = self.make_targets(*shape)
        self.initial_alpha = initial_alpha
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        """Make the policy."""
        return GaussianActor(inputs, actions, hiddens)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> BatchedMLP:
        """Make so many critics; `options` are `layer_norm` and `dropout`."""
        return Critics(count, inputs + actions, hiddens, *options)

    def make_targets(self, *shape: Any) -> nn.Module:
        """Make the critics' targets, which equal them; arguments as of `make_critics`."""
        targets = self.make_critics(*shape).requires_grad_(False)
        targets.load_state_dict(self.critics.state_dict())
        return targets

    def automatic_entropy(self) -> float:
        """Return the entropy in nats that the temperature aims at by default: minus the size of an action."""
        return -float(self.actor.size)

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder anew."""
        self.actor.body.reset(rng)
        self.critics.reset(rng)
        if any(True for _ in self.targets.parameters()):
            self.targets.load_state_dict(self.critics.state_dict())
        with torch.no_grad():
            self.log_alpha.fill_(math.log(self.initial_alpha))


class Judged(NamedTuple):
    """What critics are found to be.

    Attributes:
        loss: Theirs.
        errors: TD errors ``(critics, n)``.
        mean: Of their values.
        target: q_t ``(n,)``.
    """

    loss: Tensor
    errors: Tensor
    mean: Tensor
    target: Tensor


class PlainSACUpdate(SoftUpdate):
    """The update of SAC in plain PyTorch: critics, actor, temperature, targets, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views;
      with `huber_delta` Huber's loss in place of ½δ², with `pal_alpha` PAL, and what the rows bring before either;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparametrization;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 where there are none; those of actor and temperature times the actor's weights. The L2
    terms are in the gradients, not in the reported losses. The minimum of the target is over the critics drawn for this
    update where there is a `target_subset`; that of the actor may be a mean or one critic (`actor_target`); actor and
    temperature wait for their turn (`policy_delay`); every pass of critics or targets has dropout of its own
    (`critic_dropout`). Arguments are those of `SoftUpdate`.
    """

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        alpha = nets.log_alpha.detach().exp()
        critic_loss, errors, q_mean, target = self.judge(batch, obs, next_obs, m, rng)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.minimize(critic_loss, "critic")
        self.updates += 1
        if self.actor_due():
            actor_loss, log_probs = self.actor_loss(batch, self.actor_views(rows, obs, m), alpha, rng)
            self.minimize(actor_loss, "actor")
            alpha_loss = -nets.log_alpha * weighted_mean(log_probs + self.target_entropy, actor_row_weights(batch))
            self.minimize(alpha_loss, "alpha")
            self.policy_metrics = (actor_loss.detach(), alpha_loss.detach(), log_probs.mean())
        self.move_targets()
        self.reset_when_due(rng)
        metrics = self.report(critic_loss, alpha, q_mean).detach()
        return UpdateResult(errors.mean(dim=0).detach(), metrics, scores)

    def judge(self, batch: SampleLike, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator) -> Judged:
        """Return the critics' loss and what it is made of.

        Args:
            batch: What is learned from.
            obs: Encoded observations ``(n·m, d)``.
            next_obs: The next ones, without a gradient.
            m: Views of each row.
            rng: Source of the policy's noise and of dropout.
        """
        target = self.target_for(batch, next_obs, m, rng)
        outputs = self.critic_outputs(batch.transitions, obs, m, rng)
        errors = mean_over_views(outputs.squeeze(-1), m) - target
        return Judged(self.critic_loss(batch, errors), errors, (errors + target).mean(), target)

    def critic_outputs(self, rows: Transitions, obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return the critics' outputs ``(critics, n·m, numbers)`` for what was done in observations ``(n·m, d)``."""
        actions, critics = repeat_for_views(rows.actions.flatten(1), m), self.networks.critics
        return critics.outputs(torch.cat([obs, actions], dim=1), critics.draw_dropped(obs, rng))

    def critic_loss(self, batch: SampleLike, errors: Tensor) -> Tensor:
        """Return the critics' loss for TD errors ``(critics, n)``."""
        return weighted_mean(batch.weights * self.loss_for(batch).values(errors), batch.row_weights).sum()

    def actor_loss(self, batch: SampleLike, obs: Tensor, alpha: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the actor's loss for observations ``(n, d)``, and log π ``(n,)`` without its gradient."""
        sample = self.learned_sample(obs, normal(batch.transitions.actions.flatten(1), rng))
        inputs = torch.cat([obs, sample.actions], dim=1)
        values = self.judgment(self.networks.critics(inputs, *self.judges(obs, rng)))
        return weighted_mean(alpha * sample.log_probs - values, actor_row_weights(batch)), sample.log_probs.detach()

    def learned_sample(self, obs: Tensor, noise: Tensor) -> SquashedGaussianSample:
        """Return the actions that the policy is learned by, for standard normal noise ``(n, actions)``."""
        return self.networks.actor(obs, noise)


SACUpdate = FastSACUpdate
"""What learns where nothing else is asked for: `PlainSACUpdate`, with gradients by hand."""
