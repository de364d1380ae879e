"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import ActorCriticUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.networks import Critics, GaussianActor, Layers
from interreplay.learning.optimizer import FastAdam
from interreplay.learning.squashed_gaussian import Draw
from interreplay.learning.update import normal, over_views, shares, views, weighted_mean
from interreplay.transitions import Transitions


class SACNetworks(nn.Module):
    """Actor, twin critics, their targets and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = self.make_actor(inputs, actions, hiddens)
        if inference_only:
            return
        self.critics = self.make_critics(inputs, actions, hiddens)
        self.targets = self.make_critics(inputs, actions, hiddens).requires_grad_(False)
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        """The policy."""
        return GaussianActor(inputs, actions, hiddens)

    def make_critics(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Layers:
        """Twin critics."""
        return Critics(2, inputs + actions, hiddens)


class SACUpdate(ActorCriticUpdate):
    """The update of SAC: critics, actor, temperature, targets, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views;
      with `huber_delta` Huber's loss in place of ½δ², the same for |δ| up to it and linear beyond;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparametrisation;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 where there are none. The L2 terms are in the gradients, not in the reported losses.

    Args:
        networks: What is learned.
        target_entropy: In nats; the paper takes −|A|.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        alpha_lr: Learning rate of the temperature; 0 leaves it as it is.
        tau: Share of the way that targets move per update.
        actor_l2: c of the term c·½‖θ‖² in the actor's loss, as Sander et al. 2022 have it.
        critic_l2: The same in the critics' loss.
        huber_delta: Error up to which the critics' loss is square, or None for all.
        grad_clip: Largest gradient norm per optimiser, or None.
    """

    metrics = ("critic_loss", "actor_loss", "alpha_loss", "alpha", "q_mean", "log_prob_mean")

    def __init__(
        self,
        networks: SACNetworks,
        target_entropy: float,
        actor_lr: float = 3e-4,
        critic_lr: float = 3e-4,
        alpha_lr: float = 3e-4,
        tau: float = 0.005,
        actor_l2: float = 0.0,
        critic_l2: float = 0.0,
        huber_delta: float | None = None,
        grad_clip: float | None = None,
    ):
        super().__init__(networks, actor_lr, critic_lr, actor_l2, critic_l2, huber_delta, grad_clip)
        self.target_entropy, self.tau = float(target_entropy), tau
        self.optimizers["alpha"] = FastAdam([networks.log_alpha], alpha_lr)

    def apply(
        self, rows: Transitions, weights: Tensor, rng: torch.Generator, row_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        obs, next_obs, m = views(rows, self.networks.encoder)
        actions = rows.actions.flatten(1)
        seen = actions if m == 1 else actions.repeat_interleave(m, dim=0)
        alpha = self.networks.log_alpha.detach().exp()
        target = self.target_values(rows, next_obs, m, normal(seen, rng), alpha)
        errors, critic_loss = self.step_critics(torch.cat([obs, seen], dim=1), m, target, weights, row_weights)
        noise = normal(actions, rng)
        actor_loss, log_prob = self.step_actor(self.seen_by_actor(rows, obs, m), noise, alpha, row_weights)
        return self.conclude(errors, target, (critic_loss, actor_loss), alpha, log_prob, row_weights)

    def conclude(
        self,
        errors: Tensor,
        target: Tensor,
        losses: tuple[Tensor, Tensor],
        alpha: Tensor,
        log_prob: Tensor,
        row_weights: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Step the temperature, move the targets; returns what `apply` does.

        Args:
            errors: TD errors ``(critics, n)``.
            target: q_t ``(n,)``.
            losses: Of the critics and of the actor.
            alpha: The temperature before its step.
            log_prob: log π ``(n,)``, or what stands for it.
            row_weights: v ``(n,)`` or None.
        """
        alpha_loss = self.step_alpha(log_prob, row_weights)
        self.move_targets(self.tau)
        report = torch.stack([*losses, alpha_loss, alpha, (errors + target).mean(), log_prob.mean()])
        return errors.mean(dim=0), report

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, noise: Tensor, alpha: Tensor) -> Tensor:
        """q_t ``(n,)``, the mean over the m views of each next observation ``(n·m, d)``."""
        actions, log_prob = self.networks.actor.sample(next_obs, noise)
        seen = self.target_views(rows, next_obs)
        values = self.networks.targets(torch.cat([seen, actions], dim=1)).amin(dim=0)
        return rows.rewards + rows.discounts * over_views(values - alpha * log_prob, m)

    @torch.no_grad()
    def step_actor(
        self, obs: Tensor, noise: Tensor, alpha: Tensor, row_weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Step the actor; returns its loss and log π(a|s) ``(n,)`` before the step."""
        made = self.networks.actor.body.run(obs)
        draw = Draw(made.outputs.squeeze(0), noise)
        judged = self.networks.critics.run(torch.cat([obs, draw.actions], dim=1))
        values, lowest = judged.outputs.min(dim=0, keepdim=True)
        share = shares(draw.log_probs, row_weights)
        slopes = torch.zeros_like(judged.outputs).scatter_(0, lowest, 1.0) * -torch.as_tensor(share).unsqueeze(-1)
        of_actions = judged.backward(slopes, columns=slice(obs.shape[1], None))
        assert of_actions is not None
        of_body = draw.backward(of_actions, (alpha * share).expand_as(draw.log_probs))
        self.step(self.networks.actor.body, made, of_body.unsqueeze(0), "actor", self.actor)
        return weighted_mean(alpha * draw.log_probs - values[0, :, 0], row_weights), draw.log_probs

    @torch.no_grad()
    def step_alpha(self, log_prob: Tensor, row_weights: Tensor | None) -> Tensor:
        """Step the temperature for log π ``(n,)``; returns its loss, which is linear in log α."""
        log_alpha = self.networks.log_alpha
        log_alpha.grad = -weighted_mean(log_prob + self.target_entropy, row_weights)
        loss = log_alpha * log_alpha.grad
        self.optimizers["alpha"].apply()
        return loss
