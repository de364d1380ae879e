"""What the updates of an actor and its critics have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks import Layers, Pass, polyak
from interreplay.learning.optimizer import FastAdam
from interreplay.learning.update import Update, half_squares, over_views, shares, to_views, weighted_mean
from interreplay.transitions import Transitions


class ActorCriticUpdate(Update):
    """Steps on critics by TD errors, and on actors by gradients of their outputs.

    Losses are differentiated by hand, up to the outputs of the networks: the graph that autograd would build took
    0.4 ms of 9 for SAC. Subclasses say how.

    Args:
        networks: What is learned, with ``actor``, ``critics`` and ``encoder``; where the encoder has parameters, which
            the critics' loss trains, also with ``target_encoder``.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        actor_l2: c of the term c·½‖θ‖² in the actor's loss, as Sander et al. 2022 have it.
        critic_l2: The same in the critics' loss.
        huber_delta: Error up to which the critics' loss is square, or None for all.
        grad_clip: Largest gradient norm per optimiser, or None.

    Attributes:
        scale: s in the critics' loss s·Σ_j mean(v·w·½δ_j²).
    """

    scale = 1.0

    def __init__(
        self,
        networks: Any,
        actor_lr: float,
        critic_lr: float,
        actor_l2: float,
        critic_l2: float,
        huber_delta: float | None,
        grad_clip: float | None,
    ):
        self.networks, self.huber_delta, self.grad_clip = networks, huber_delta, grad_clip
        self.encoder = list(networks.encoder.parameters())
        self.actor, self.critics = list(networks.actor.parameters()), [*networks.critics.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder:
            self.targets += networks.target_encoder.parameters()
        self.optimizers = {
            "actor": FastAdam(self.actor, actor_lr, weight_decay=actor_l2),
            "critic": FastAdam(self.critics, critic_lr, weight_decay=critic_l2),
        }

    def target_views(self, rows: Transitions, next_obs: Tensor) -> Tensor:
        """What target networks see of the next observations, `next_obs` where the encoder has no parameters."""
        if not self.encoder:
            return next_obs
        with torch.no_grad():
            return self.networks.target_encoder(rows.next_obs)

    def seen_by_actor(self, rows: Transitions, obs: Tensor, m: int) -> Tensor:
        """Encoded observations ``(n, d)`` for the actor's loss, which trains no encoder."""
        return obs.detach() if m == 1 else self.networks.encoder(rows.obs)

    def move_targets(self, tau: float) -> None:
        """Move the critics' targets, and the encoder's."""
        polyak(self.targets, [*self.critics], tau)

    def step_critics(
        self,
        seen: Tensor,
        m: int,
        target: Tensor,
        weights: Tensor,
        row_weights: Tensor | None,
        taken: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Step the critics towards targets.

        Args:
            seen: Rows [s; a], or s where critics have an output per action, ``(n·m, inputs)``, m views of each.
            m: Views.
            target: q_t ``(n,)``.
            weights: Importance weights w ``(n,)``.
            row_weights: v ``(n,)`` or None.
            taken: Numbers ``(n·m,)`` of the actions, where critics have an output per action.

        Returns:
            TD errors ``(critics, n)`` before the step, and the loss.
        """
        for parameter in self.encoder:
            parameter.grad = None
        made = self.networks.critics.run(seen)
        with torch.no_grad():
            which = None if taken is None else taken.expand(len(made.outputs), -1).unsqueeze(-1)
            chosen = made.outputs if which is None else made.outputs.gather(-1, which)
            errors = over_views(chosen.squeeze(-1), m) - target
            slopes = errors if self.huber_delta is None else errors.clamp(-self.huber_delta, self.huber_delta)
            slopes = slopes * (weights * shares(target, row_weights) * self.scale)
            losses = self.scale * half_squares(errors, self.huber_delta)
            loss = weighted_mean(losses * weights, row_weights).sum()
            gradients = to_views(slopes, m).unsqueeze(-1)
            if which is not None:
                gradients = torch.zeros_like(made.outputs).scatter_(-1, which, gradients)
        self.step(self.networks.critics, made, gradients, "critic", self.critics)
        return errors, loss

    def step(self, layers: Layers, made: Pass, gradients: Tensor, name: str, parameters: list[nn.Parameter]) -> None:
        """Step the optimiser `name` of these parameters by the gradients of the outputs of a pass."""
        layers.learn(made, gradients)
        if self.grad_clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.grad_clip)
        self.optimizers[name].apply()
