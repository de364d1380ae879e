"""What the updates of an actor and its critics have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from interreplay.learning.dropout import Dropped
from interreplay.learning.fast.batched_layers import Networks
from interreplay.learning.fast.optimizer import FastAdam
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
from interreplay.learning.settings import ActorCriticSettings
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
    """Optimizers, targets and turns of an actor and its critics.

    Args:
        networks: What is learned, with ``actor``, ``critics`` and ``encoder``, and a ``reset`` that draws all but the
            encoder anew; where the encoder has parameters, which the critics' loss trains, also with
            ``target_encoder``. ``targets`` without parameters are none.
        settings: Those of the algorithm; None for its defaults. Of a learning rate with a schedule the first one.
        grad_clip: Bound of the gradients of the actor and of those of the critics, or None.
        grad_clip_by: What it bounds, see `clip_gradients`.
        **changes: Settings by name in place of those in `settings`.

    Attributes:
        adam: The class of the optimizers.
        adamw: The same, for weight decay that is decoupled from the gradient.
        betas: β₁ and β₂ of the actor's and the critics'.
        standard: Settings where none are given.
        loss: The critics' loss of rows that bring none of their own.
        updates: Their number so far.
    """

    offers = frozenset({MEAN_ERROR, LARGEST_ERROR, REDUCIBLE_LOSS, TARGET, SCORING, ACTOR_WEIGHTS, CRITIC_LOSS})
    adam: ClassVar[Any] = torch.optim.Adam
    adamw: ClassVar[Any] = torch.optim.AdamW
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    standard: ClassVar[ActorCriticSettings] = ActorCriticSettings()

    def __init__(
        self,
        networks: Any,
        *,
        settings: Any = None,
        grad_clip: float | None = None,
        grad_clip_by: str = "global_norm",
        **changes: Any,
    ):
        self.settings: Any = replace(self.standard if settings is None else settings, **changes)
        self.networks, self.tau = networks, self.settings.tau
        self.loss = loss_of(self.settings.huber_delta, self.settings.pal_alpha)
        self.grad_clip, self.grad_clip_by = grad_clip, grad_clip_by
        self.encoder = list(networks.encoder.parameters())
        self.actor, self.critics = list(networks.actor.parameters()), [*networks.critics.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder and self.targets:
            self.targets += networks.target_encoder.parameters()
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "actor": self._optimizer(self.actor, self.settings.actor_lr, self.settings.actor_l2),
            "critic": self._optimizer(self.critics, self.settings.critic_lr, self.settings.critic_l2),
        }
        self.updates = 0

    def _optimizer(self, parameters: Sequence[Tensor], lr: float, l2: float) -> torch.optim.Optimizer:
        """Make an optimizer: Adam with the gradient of an L2 term, as Sander et al. 2022 have it, or AdamW."""
        decay = self.settings.weight_decay
        made = self.adamw(parameters, lr, weight_decay=decay) if decay else self.adam(parameters, lr, weight_decay=l2)
        made.param_groups[0]["betas"] = self.betas
        return made

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
        """Return what target networks see of the next observations: `next_obs` where the encoder has no target."""
        if not (self.encoder and self.targets):
            return next_obs
        with torch.no_grad():
            return self.networks.target_encoder(rows.next_obs)

    def actor_views(self, rows: Transitions, obs: Tensor, m: int) -> Tensor:
        """Return encoded observations ``(n, d)`` for the actor's loss, which trains no encoder."""
        return obs.detach() if m == 1 else self.networks.encoder(rows.obs)

    def lowest_target(self, inputs: Tensor, rng: torch.Generator) -> Tensor:
        """Return the minimum of the targets' outputs ``(n, out)`` of rows, over those that are drawn for this update.

        Without `target_subset` these are all, and nothing is drawn (Chen et al. 2021, arXiv:2101.05982).
        """
        targets, size = self.networks.targets, self.settings.target_subset
        networks: Networks | None = None
        if size is not None and size < targets.count:
            drawn = torch.randperm(targets.count, generator=rng, device=rng.device)[:size]
            networks = drawn.tolist() if drawn.device.type == "cpu" else drawn
        dropped = targets.draw_dropped(inputs, rng, None if networks is None else size)
        return targets.outputs(inputs, dropped, networks).amin(dim=0)

    def judges(self, rows: Tensor, rng: torch.Generator) -> tuple[Dropped | None, list[int] | None]:
        """Return what the critics leave out while they judge actions in rows ``(n, ...)``, and which ones judge."""
        networks = [0] if self.settings.actor_target == "first" else None
        return self.networks.critics.draw_dropped(rows, rng, networks and len(networks)), networks

    def judgment(self, values: Tensor) -> Tensor:
        """Return what the policy maximizes ``(...)`` of the values ``(m, ...)`` of those critics that judge."""
        if self.settings.actor_target == "mean":
            return values.mean(dim=0)
        return values.amin(dim=0)

    def actor_due(self) -> bool:
        """Return whether this update is one of the policy too; `updates` counts from 1 on."""
        return self.updates % self.settings.policy_delay == 0

    def move_targets(self) -> None:
        """Move the critics' targets, and the encoder's, where there are any."""
        if self.targets:
            polyak(self.targets, [*self.critics], self.tau)

    def reset_when_due(self, rng: torch.Generator) -> None:
        """Let networks and optimizers start anew after each `reset_interval` updates (Nikishin et al. 2022).

        An encoder stays, as in arXiv:2205.07802, and so do rates, counts and whatever is stored elsewhere.
        """
        interval = self.settings.reset_interval
        if interval is None or self.updates % interval:
            return
        self.networks.reset(rng)
        for optimizer in self.optimizers.values():
            optimizer.load_state_dict(optimizer.state_dict() | {"state": {}})

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

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = int(state.get("updates", 0))  # which no checkpoint of SAC had before policies could wait
