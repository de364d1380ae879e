"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.fast.discrete_sac import FastDiscreteSACUpdate
from interreplay.learning.networks import MLP, BatchedMLP
from interreplay.learning.policies import POLICY_OUTPUT, DiscretePolicy
from interreplay.learning.sac import PlainSACUpdate, SACNetworks
from interreplay.learning.update import (
    SampleLike,
    actor_row_weights,
    mean_over_views,
    repeat_for_views,
    weighted_mean,
)
from interreplay.transitions import Transitions

ENTROPY_SHARE = 0.98
"""Share of the largest entropy, log|A|, that the temperature aims at by default (Christodoulou 2019, appendix)."""


class CategoricalActor(DiscretePolicy):
    """A policy that gives every action a probability.

    Args:
        inputs: Numbers in an observation.
        actions: Number of actions A.
        hiddens: Widths of the hidden layers.
    """

    stochastic = True

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body, self.size = MLP([inputs, *hiddens, actions]), actions

    def forward(self, obs: Tensor) -> Tensor:
        """Return log π(·|s) ``(n, A)``."""
        return self.body(obs).log_softmax(dim=-1)

    def output(self, obs: Tensor) -> Tensor:
        """Return log probabilities ``(n, A)`` up to a constant per row."""
        return self.body.outputs(obs)[0]

    def mode(self, output: Tensor) -> Tensor:
        return output.argmax(dim=-1)

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return torch.multinomial(output.softmax(dim=-1), 1, generator=rng).squeeze(1)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the probabilities ``(n, A)``."""
        return {POLICY_OUTPUT: output.log_softmax(dim=-1).exp()}

    def record_random(self, count: int) -> dict[str, Tensor]:
        return {POLICY_OUTPUT: torch.full((count, self.size), 1.0 / self.size)}


class DiscreteSACNetworks(SACNetworks):
    """`SACNetworks` whose actor gives probabilities of `actions` actions, and whose critics have an output for each."""

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        return CategoricalActor(inputs, actions, hiddens)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> BatchedMLP:
        return BatchedMLP(count, [inputs, *hiddens, actions], *options)

    def automatic_entropy(self) -> float:
        return ENTROPY_SHARE * math.log(self.actor.size)


class PlainDiscreteSACUpdate(PlainSACUpdate):
    """The update of SAC in plain PyTorch, with sums over all actions where `PlainSACUpdate` draws one.

    With V(s) = Σ_a π(a|s)·(min_j Q_j(s, a) − α log π(a|s)) and q_t = r + discounts·V'(s'), V' of the targets:

    * critics: as there, Q_j(s, a) the output of the action that was taken;
    * actor: mean(−v·V(s));
    * temperature: as there, with Σ_a π(a|s)·log π(a|s) in the place of log π(a|s).

    Arguments are those of `SoftUpdate`; the target entropy is `ENTROPY_SHARE`·log A by default, as in the paper.
    """

    def critic_outputs(self, rows: Transitions, obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        critics, taken = self.networks.critics, repeat_for_views(rows.actions, m).unsqueeze(-1)
        values = critics.outputs(obs, critics.draw_dropped(obs, rng))
        return values.gather(-1, taken.expand(len(values), -1, -1))

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        log_probs = self.networks.actor(next_obs)
        values = self.lowest_target(self.target_views(rows, next_obs), rng)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * log_probs
        return rows.rewards + rows.discounts * mean_over_views((log_probs.exp() * values).sum(dim=-1), m)

    def actor_loss(self, batch: SampleLike, obs: Tensor, alpha: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the actor's loss for observations ``(n, d)``, and Σ_a π log π ``(n,)`` without its gradient."""
        log_probs = self.networks.actor(obs)
        with torch.no_grad():
            values = self.judgment(self.networks.critics.outputs(obs, *self.judges(obs, rng)))
        losses = (log_probs.exp() * (alpha * log_probs - values)).sum(dim=-1)
        return weighted_mean(losses, actor_row_weights(batch)), (log_probs.exp() * log_probs).sum(dim=-1).detach()


DiscreteSACUpdate = FastDiscreteSACUpdate
"""What learns where nothing else is asked for: `PlainDiscreteSACUpdate`, with gradients by hand."""
