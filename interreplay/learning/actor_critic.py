"""What the updates of an actor and its critics have in common."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.fast.optimizer import FastAdam
from interreplay.learning.networks import polyak
from interreplay.learning.settings import ActorCriticSettings, SACSettings
from interreplay.learning.update import Update, clip_gradients
from interreplay.transitions import Transitions


class ActorCriticUpdate(Update, ABC):
    """Optimizers and targets of an actor and its critics.

    Args:
        networks: What is learned, with ``actor``, ``critics`` and ``encoder``; where the encoder has parameters, which
            the critics' loss trains, also with ``target_encoder``. ``targets`` without parameters are none.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        tau: Share of the way that targets move per update of theirs.
        actor_l2: c of the term c·½‖θ‖² in the actor's loss, as Sander et al. 2022 have it.
        critic_l2: The same in the critics' loss.
        huber_delta: Error up to which the critics' loss is square, or None for all.
        grad_clip: Bound of the gradients of the actor and of those of the critics, or None.
        grad_clip_by: What it bounds, see `clip_gradients`.

    Attributes:
        adam: The class of the optimizers.
    """

    adam: type[torch.optim.Adam] = torch.optim.Adam

    def __init__(
        self,
        networks: Any,
        actor_lr: float = ActorCriticSettings.actor_lr,
        critic_lr: float = ActorCriticSettings.critic_lr,
        tau: float = ActorCriticSettings.tau,
        actor_l2: float = ActorCriticSettings.actor_l2,
        critic_l2: float = ActorCriticSettings.critic_l2,
        huber_delta: float | None = None,
        grad_clip: float | None = None,
        grad_clip_by: str = "global_norm",
    ):
        self.networks, self.tau, self.huber_delta = networks, tau, huber_delta
        self.grad_clip, self.grad_clip_by = grad_clip, grad_clip_by
        self.encoder = list(networks.encoder.parameters())
        self.actor, self.critics = list(networks.actor.parameters()), [*networks.critics.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder and self.targets:
            self.targets += networks.target_encoder.parameters()
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "actor": self.adam(self.actor, actor_lr, weight_decay=actor_l2),
            "critic": self.adam(self.critics, critic_lr, weight_decay=critic_l2),
        }

    def minimize(self, loss: Tensor, name: str) -> None:
        """Step the parameters of the optimizer `name` down the gradient of a loss, which autograd takes."""
        optimizer = self.optimizers[name]
        parameters = optimizer.param_groups[0]["params"]
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient.contiguous()  # as the fused kernel reads it
        if name in ("actor", "critic"):
            clip_gradients(parameters, self.grad_clip, self.grad_clip_by)
        optimizer.apply() if isinstance(optimizer, FastAdam) else optimizer.step()

    def target_views(self, rows: Transitions, next_obs: Tensor) -> Tensor:
        """Return what target networks see of the next observations: `next_obs` where the encoder has no parameters."""
        if not self.encoder:
            return next_obs
        with torch.no_grad():
            return self.networks.target_encoder(rows.next_obs)

    def actor_views(self, rows: Transitions, obs: Tensor, m: int) -> Tensor:
        """Return encoded observations ``(n, d)`` for the actor's loss, which trains no encoder."""
        return obs.detach() if m == 1 else self.networks.encoder(rows.obs)

    def move_targets(self) -> None:
        """Move the critics' targets, and the encoder's."""
        polyak(self.targets, [*self.critics], self.tau)


class SoftUpdate(ActorCriticUpdate):
    """What the updates of soft actor-critic share: the temperature, and what is reported.

    Args:
        networks: What is learned, with ``log_alpha`` too.
        target_entropy: In nats; the paper takes −|A|.
        alpha_lr: Learning rate of the temperature; 0 leaves it as it is.
        **settings: Those of `ActorCriticUpdate`.
    """

    metrics = ("critic_loss", "actor_loss", "alpha_loss", "alpha", "q_mean", "log_prob_mean")

    def __init__(self, networks: Any, target_entropy: float, alpha_lr: float = SACSettings.alpha_lr, **settings: Any):
        super().__init__(networks, **settings)
        self.target_entropy = float(target_entropy)
        self.optimizers["alpha"] = self.adam([networks.log_alpha], alpha_lr)
