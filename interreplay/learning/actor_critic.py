"""What the updates of an actor and its critics have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.losses import CriticLoss, loss_of
from interreplay.learning.networks import polyak
from interreplay.learning.offers import (
    ACTOR_WEIGHTS,
    CRITIC_LOSS,
    LARGEST_ERROR,
    MEAN_ERROR,
    REDUCIBLE_LOSS,
    SCORING,
    TARGET,
)
from interreplay.learning.settings import ActorCriticSettings, SACSettings
from interreplay.learning.update import (
    SampleLike,
    Update,
    clip_gradients,
    mean_over_views,
    repeat_for_views,
    views,
)
from interreplay.transitions import Transitions


class ActorCriticUpdate(Update, ABC):
    """Optimizers and targets of an actor and its critics.

    Args:
        networks: What is learned, with ``actor``, ``critics`` and ``encoder``; where the encoder has parameters, which
            the critics' loss trains, also with ``target_encoder``.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        tau: Share of the way that targets move per update of theirs.
        actor_l2: c of the term c·½‖θ‖² in the actor's loss, as Sander et al. 2022 have it.
        critic_l2: The same in the critics' loss.
        huber_delta: Error up to which the critics' loss is square, or None for all.
        pal_alpha: α of the critics' loss `PAL`, or None for another loss; not with `huber_delta`.
        grad_clip: Bound of the gradients of the actor and of those of the critics, or None.
        grad_clip_by: What it bounds, see `clip_gradients`.

    Attributes:
        adam: The class of the optimizers.
        loss: The critics' loss of rows that bring none of their own.
    """

    adam: type[torch.optim.Adam] = torch.optim.Adam
    offers = frozenset({MEAN_ERROR, LARGEST_ERROR, REDUCIBLE_LOSS, TARGET, SCORING, ACTOR_WEIGHTS, CRITIC_LOSS})

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
        pal_alpha: float | None = None,
    ):
        self.networks, self.tau, self.loss = networks, tau, loss_of(huber_delta, pal_alpha)
        self.grad_clip, self.grad_clip_by = grad_clip, grad_clip_by
        self.encoder = list(networks.encoder.parameters())
        self.actor, self.critics = list(networks.actor.parameters()), [*networks.critics.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder:
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
            parameter.grad = gradient
        if name in ("actor", "critic"):
            clip_gradients(parameters, self.grad_clip, self.grad_clip_by)
        optimizer.step()

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

    def loss_for(self, batch: SampleLike) -> CriticLoss:
        """Return the critics' loss: what the rows bring, else this update's."""
        return self.loss if batch.critic_loss is None else batch.critic_loss.or_else(self.loss)

    def target_for(self, batch: SampleLike, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return q_t ``(n,)``: what the batch brings, else `target_values` of its rows."""
        return self.target_values(batch.transitions, next_obs, m, rng) if batch.targets is None else batch.targets

    @abstractmethod
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return q_t ``(n,)``, the mean over the m views of each encoded next observation ``(n·m, d)``."""

    def taken_values(self, critics: Any, rows: Transitions, obs: Tensor, m: int) -> Tensor:
        """Return ``(critics, n)``, values of the actions that were taken, means over the views ``(n·m, d)``."""
        actions = repeat_for_views(rows.actions, m)
        if not self.networks.actor.discrete:
            return mean_over_views(critics(torch.cat([obs, actions.flatten(1)], dim=1)), m)
        outputs = critics.outputs(obs)
        taken = actions.expand(len(outputs), -1).unsqueeze(-1)
        return mean_over_views(outputs.gather(-1, taken).squeeze(-1), m)

    @torch.no_grad()
    def scores(
        self, names: Collection[str], rows: Transitions, obs: Tensor, m: int, errors: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Return scores ``(n,)`` by their names, from what an update has computed before it moves the targets.

        Args:
            names: Some of the scores in `offers`.
            rows: n rows.
            obs: Their encoded observations ``(n·m, d)``.
            m: Views of each row.
            errors: TD errors ``(critics, n)``.
            target: q_t ``(n,)``.
        """
        found = {TARGET: target} if TARGET in names else {}
        if MEAN_ERROR in names:
            found[MEAN_ERROR] = errors.abs().mean(dim=0)
        if LARGEST_ERROR in names:
            found[LARGEST_ERROR] = errors.abs().amax(dim=0)
        if REDUCIBLE_LOSS in names:
            seen = self.networks.target_encoder(rows.obs) if self.encoder else obs
            others = self.taken_values(self.networks.targets, rows, seen, m) - target
            found[REDUCIBLE_LOSS] = (errors.square() - others.square()).mean(dim=0)
        return found

    @torch.no_grad()
    def score(self, rows: Transitions, names: Collection[str], rng: torch.Generator) -> dict[str, Tensor]:
        obs, next_obs, m = views(rows, self.networks.encoder)
        target = self.target_values(rows, next_obs, m, rng)
        errors = self.taken_values(self.networks.critics, rows, obs, m) - target
        return self.scores(names, rows, obs, m, errors, target)


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
