"""Deep Q-networks: double, dueling, noisy, and with distributions of returns, as one update."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.exploration import EpsilonGreedy
from interreplay.learning.losses import CriticLoss, make_loss
from interreplay.learning.networks.optimizers import FastAdam, FlatAdam, RMSprop
from interreplay.learning.networks.small_layers import SmallNetwork, is_small
from interreplay.learning.update import (
    CRITIC_LOSS,
    LARGEST_ERROR,
    MEAN_ERROR,
    SCORING,
    Batch,
    Update,
    UpdateResult,
    clip_gradients,
    critic_weights,
    mean_over_views,
    repeat_for_views,
    trainable,
    view_tensors,
    views,
)
from interreplay.learning.value.streams import OneStream
from interreplay.learning.value.value_heads import Mean
from interreplay.learning.value.value_settings import DQNSettings
from interreplay.transitions import Transitions


class ConfiguredEpsilon(EpsilonGreedy):
    """`EpsilonGreedy` with the values of DQN's settings."""


class DQNUpdate(Update):
    """The update of DQN (Mnih et al. 2015) and its variants.

    With z(s, a) the N outputs of an action, E their expected return and z' the outputs of the target network:

    * a* = argmax_a E z'(s', a), with `double` (van Hasselt et al. 2016, arXiv:1509.06461) argmax_a E z(s', a);
    * target: the head's target of z'(s', a*), r and discounts, a mean over the views of s';
    * loss: mean(v·w·loss(z(s, a), target)), a mean over the views of s;
    * noise: drawn independently for z(s, ·), z(s', ·) and z'(s', ·);
    * target network: moves a share `tau` of the way every `target_update_period` updates.

    Args:
        networks: `QNetworks` with an encoder.
        settings: `DQNSettings`; None for its defaults.
        **changes: Settings to change.

    Raises:
        ValueError: `critic_loss` is given and the network learns a distribution.
    """

    metrics = ("loss", "q_mean", "error_mean")
    offers = frozenset({MEAN_ERROR, LARGEST_ERROR, SCORING})

    def __init__(self, networks: Any, settings: DQNSettings | None = None, **changes: Any):
        self.settings = settings = replace(settings or DQNSettings(), **changes)
        self.networks = networks
        self.layers = networks.actor.layers
        self.head = networks.actor.head
        self.target_layers = networks.targets
        self.encoder = list(networks.encoder.parameters())
        self.parameters = trainable(networks.actor, networks.encoder)
        self.sources: list[Tensor] = [*networks.actor.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder:
            self.targets += networks.target_encoder.parameters()
        self.optimizers = {"q": self.make_optimizer()}
        self.since_copy = 0
        self.loss: CriticLoss | None = None
        if settings.critic_loss is not None:
            self.loss = make_loss(settings.critic_loss)
            if not isinstance(self.head, Mean):
                raise ValueError(
                    f"critic_loss is {settings.critic_loss!r}; expected none, as distributions have their own loss"
                )
        if isinstance(self.head, Mean):
            self.offers = self.offers | {CRITIC_LOSS}

    def learn(self, batch: Batch, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        small = self.small_networks()
        if small is not None and batch.critic_loss is None and "views_obs" not in rows.extras:
            return self.small_update(batch, *small)
        target = self.target(rows, rng)
        obs, m = view_tensors(rows, self.networks.encoder, "obs")
        outputs = self.layers.outputs(obs, self.layers.draw_noise(rng))
        chosen = outputs.gather(1, self.taken(rows, m)).squeeze(1)
        loss_of_rows = batch.critic_loss or self.loss
        if batch.critic_loss is not None and self.loss is not None:
            loss_of_rows = batch.critic_loss.or_else(self.loss)
        losses, errors = self.head.compare(chosen, repeat_for_views(target, m), m, loss_of_rows)
        losses = mean_over_views(losses, m) * critic_weights(batch, rows.rewards)
        loss = losses.mean()
        self.minimize(loss)
        self.move_targets()
        errors = mean_over_views(errors, m)
        values = self.head.values(chosen.detach())
        metrics = torch.stack([loss.detach(), values.mean(), errors.abs().mean()])
        return UpdateResult(errors, metrics, self.scores(self.scores_wanted, errors))

    def small_networks(self) -> tuple[SmallNetwork, SmallNetwork] | None:
        """Return network and target network in numpy if `small_update` computes this update, else None."""
        if not isinstance(self.optimizers["q"], FlatAdam) or not isinstance(self.head, Mean) or self.loss is not None:
            return None
        if self.settings.grad_clip is not None and self.settings.grad_clip_by != "global_norm":
            return None
        online = self.layers.body.small_network()
        target = self.target_layers.body.small_network()
        return None if online is None or target is None else (online, target)

    @torch.no_grad()
    def small_update(self, batch: Batch, online: SmallNetwork, target: SmallNetwork) -> UpdateResult:
        """Learn from a batch as `learn` does, in numpy.

        A call of torch takes several microseconds, a call of numpy one or two. With layers of 64 units and batches of
        32, an update by autograd takes three times as long.
        """
        rows = batch.transitions
        assert rows.discounts is not None
        obs, next_obs, _ = views(rows, self.networks.encoder)
        weights = critic_weights(batch, rows.rewards).numpy()
        count = len(weights)
        following = target.forward(next_obs.numpy())[-1]
        compared = online.forward(next_obs.numpy())[-1] if self.settings.double else following
        starts = np.arange(0, following.size, following.shape[1])
        best = following.reshape(-1).take(starts + compared.argmax(1))
        targets = rows.rewards.numpy() + rows.discounts.numpy() * best

        seen = online.forward(obs.numpy())
        outputs = seen[-1]
        taken = starts + rows.actions.numpy()
        chosen = outputs.reshape(-1).take(taken)
        errors = chosen - targets
        delta = self.head.huber_delta
        slopes = errors if delta is None else errors.clip(-delta, delta)
        losses = slopes * (errors - 0.5 * slopes)  # ½δ² within the bound, linear beyond

        gradient = np.zeros_like(outputs)
        gradient.reshape(-1)[taken] = slopes * weights / count
        _, found = online.backward(seen, gradient, of_rows=False)
        adam: Any = self.optimizers["q"]
        for parameter, piece, values in zip(self.parameters, adam.pieces, found, strict=True):
            piece.numpy()[...] = values
            parameter.grad = piece
        if self.settings.grad_clip is not None:
            flat = adam.gradients.numpy()
            norm = float(np.sqrt(flat @ flat)) + 1e-6
            if norm > self.settings.grad_clip:
                flat *= self.settings.grad_clip / norm
        adam.apply()
        self.move_targets()

        sums = np.array([losses @ weights, np.add.reduce(chosen), np.add.reduce(np.abs(errors))], errors.dtype)
        metrics = torch.from_numpy(sums / count)
        td_errors = torch.from_numpy(errors)
        return UpdateResult(td_errors, metrics, self.scores(self.scores_wanted, td_errors))

    def minimize(self, loss: Tensor) -> None:
        """Take one step of the optimizer along the negative gradient of a loss."""
        for parameter in self.parameters:
            parameter.grad = None  # the next gradients use its memory
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        clip_gradients(self.parameters, self.settings.grad_clip, self.settings.grad_clip_by)
        optimizer: Any = self.optimizers["q"]
        optimizer.apply()

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer of the parameters."""
        lr = self.settings.lr
        eps = self.settings.optimizer_eps
        if self.settings.optimizer == "RMSprop":
            return RMSprop(self.parameters, lr, decay=0.95, eps=eps, centered=True)
        if isinstance(self.layers, OneStream) and not self.encoder and is_small(self.parameters):
            return FlatAdam(self.parameters, lr, eps=eps)
        return FastAdam(self.parameters, lr, eps=eps)

    def taken(self, rows: Transitions, m: int) -> Tensor:
        """Return the actions that were taken as an index ``(n·m, 1, N)`` of outputs."""
        return repeat_for_views(rows.actions, m).view(-1, 1, 1).expand(-1, 1, self.head.numbers)

    def scores(self, names: Collection[str], errors: Tensor) -> dict[str, Tensor]:
        """Return scores ``(n,)`` by name; with one network, the mean and the largest error are equal."""
        return {name: errors.abs() for name in (MEAN_ERROR, LARGEST_ERROR) if name in names}

    @torch.no_grad()
    def score(self, rows: Transitions, names: Collection[str], rng: torch.Generator) -> dict[str, Tensor]:
        target = self.target(rows, rng)
        obs, m = view_tensors(rows, self.networks.encoder, "obs")
        chosen = self.layers.outputs(obs, self.layers.draw_noise(rng)).gather(1, self.taken(rows, m)).squeeze(1)
        errors = self.head.compare(chosen, repeat_for_views(target, m), m).errors
        return self.scores(names, mean_over_views(errors, m))

    @torch.no_grad()
    def target(self, rows: Transitions, rng: torch.Generator) -> Tensor:
        """Return the head's target ``(n, N)``."""
        nets = self.networks
        head = self.head
        encoder = nets.target_encoder if self.encoder else nets.encoder
        next_obs, m = view_tensors(rows, encoder, "next_obs")
        following = self.target_layers.outputs(next_obs, self.target_layers.draw_noise(rng))
        compared = following
        if self.settings.double:
            if self.encoder:
                next_obs, _ = view_tensors(rows, nets.encoder, "next_obs")
            compared = self.layers.outputs(next_obs, self.layers.draw_noise(rng))
        best = head.values(compared).argmax(dim=-1).view(-1, 1, 1).expand(-1, 1, head.numbers)
        chosen = following.gather(1, best).squeeze(1)
        found = head.target(chosen, repeat_for_views(rows.rewards, m), repeat_for_views(rows.discounts, m))
        return found if m == 1 else found.unflatten(0, (-1, m)).mean(dim=1)

    @torch.no_grad()
    def move_targets(self) -> None:
        """Move the target network if this is due."""
        if not self.phase():
            return
        if self.settings.tau == 1.0:
            torch._foreach_copy_(self.targets, self.sources)
        else:
            torch._foreach_lerp_(self.targets, self.sources, self.settings.tau)

    def phase(self) -> Hashable:
        """Return whether the next update moves the target network."""
        return self.since_copy + 1 >= self.settings.target_update_period

    def finish(self, rng: torch.Generator) -> None:
        self.since_copy = 0 if self.phase() else self.since_copy + 1

    def state_dict(self) -> dict[str, Any]:
        return {"since_copy": self.since_copy}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.since_copy = int(state["since_copy"])
