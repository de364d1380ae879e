"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks import MLP, Layers
from interreplay.learning.sac import SACNetworks, SACUpdate
from interreplay.learning.update import over_views, shares, views, weighted_mean
from interreplay.transitions import Transitions

ENTROPY_SHARE = 0.98
"""Share of the largest entropy, log|A|, that the temperature aims at by default (Christodoulou 2019, appendix)."""


class CategoricalActor(nn.Module):
    """A policy that gives every action a probability.

    Args:
        inputs: Numbers in an observation.
        actions: Number of actions A.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body = MLP([inputs, *hiddens, actions])

    def forward(self, obs: Tensor) -> Tensor:
        """Log π(·|s) ``(n, A)``."""
        return self.body(obs).log_softmax(dim=-1)

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions ``(n,)`` for standard normal `noise` ``(n, A)``, or the most probable ones for None.

        With ε ~ N(0, 1), −log Φ(ε) is exponential, so that −log(−log Φ(ε)) is Gumbel noise, with which the largest of
        the disturbed log probabilities is a draw from π.
        """
        scores = self.body(obs)
        return (scores if noise is None else scores - (-torch.special.log_ndtr(noise)).log()).argmax(dim=-1)


class DiscreteSACNetworks(SACNetworks):
    """`SACNetworks` whose actor gives probabilities of `actions` actions, and whose critics have an output for each."""

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        return CategoricalActor(inputs, actions, hiddens)

    def make_critics(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Layers:
        return Layers(2, [inputs, *hiddens, actions])


class DiscreteSACUpdate(SACUpdate):
    """The update of SAC with sums over all actions where `SACUpdate` draws one.

    With V(s) = Σ_a π(a|s)·(min_j Q_j(s, a) − α log π(a|s)) and q_t = r + discounts·V'(s'), V' of the targets:

    * critics: as there, Q_j(s, a) the output of the action that was taken;
    * actor: mean(−v·V(s));
    * temperature: as there, with Σ_a π(a|s)·log π(a|s) in the place of log π(a|s).

    Args:
        networks: What is learned.
        target_entropy: In nats; `ENTROPY_SHARE`·log A by default in the paper.
        **settings: Those of `SACUpdate`.
    """

    networks: DiscreteSACNetworks

    def apply(
        self, rows: Transitions, weights: Tensor, rng: torch.Generator, row_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        obs, next_obs, m = views(rows, self.networks.encoder)
        taken = rows.actions if m == 1 else rows.actions.repeat_interleave(m)
        alpha = self.networks.log_alpha.detach().exp()
        target = self.expected_values(rows, next_obs, m, alpha)
        errors, critic_loss = self.step_critics(obs, m, target, weights, row_weights, taken)
        actor_loss, log_prob = self.step_policy(self.seen_by_actor(rows, obs, m), alpha, row_weights)
        return self.conclude(errors, target, (critic_loss, actor_loss), alpha, log_prob, row_weights)

    @torch.no_grad()
    def expected_values(self, rows: Transitions, next_obs: Tensor, m: int, alpha: Tensor) -> Tensor:
        """q_t ``(n,)``, the mean over the m views of each next observation ``(n·m, d)``."""
        log_probs = self.networks.actor(next_obs)
        values = self.networks.targets.outputs(self.target_views(rows, next_obs)).amin(dim=0)
        expected = (log_probs.exp() * (values - alpha * log_probs)).sum(dim=-1)
        return rows.rewards + rows.discounts * over_views(expected, m)

    @torch.no_grad()
    def step_policy(self, obs: Tensor, alpha: Tensor, row_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Step the actor; returns its loss and Σ_a π log π ``(n,)`` before the step.

        The loss of a row is Σ_a π_a·f_a, f_a = α log π_a − min_j Q_j; its gradient by the outputs that π is the
        softmax of is π_a·(f_a − Σ_b π_b·f_b), what log π adds to it being 0.
        """
        made = self.networks.actor.body.run(obs)
        log_probs = made.outputs.squeeze(0).log_softmax(dim=-1)
        probs = log_probs.exp()
        costs = alpha * log_probs - self.networks.critics.outputs(obs).amin(dim=0)
        losses = (probs * costs).sum(dim=-1)
        share = torch.as_tensor(shares(losses, row_weights)).unsqueeze(-1)
        slopes = share * probs * (costs - losses.unsqueeze(-1))
        self.step(self.networks.actor.body, made, slopes.unsqueeze(0), "actor", self.actor)
        return weighted_mean(losses, row_weights), (probs * log_probs).sum(dim=-1)
