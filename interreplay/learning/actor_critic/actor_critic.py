"""The base class of updates of an actor and its critics: optimizers, target networks, losses and scores."""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from interreplay.learning.actor_critic.compilation import compiled, is_constant
from interreplay.learning.losses import build_loss
from interreplay.learning.networks.batched_layers import Networks, at_once
from interreplay.learning.networks.optimizers import FastAdam, FastAdamW, polyak
from interreplay.learning.settings import ActorCriticSettings
from interreplay.learning.update import (
    ACTOR_WEIGHTS,
    CRITIC_LOSS,
    LARGEST_ERROR,
    MEAN_ERROR,
    REDUCIBLE_LOSS,
    SCORING,
    TARGET,
    Batch,
    Randomness,
    Update,
    UpdateResult,
    actor_row_weights,
    clip_gradients,
    count_views,
    critic_weights,
    flat_rows,
    make_batch,
    mean_over_views,
    normal,
    repeat_for_views,
    trainable,
    views,
)
from interreplay.transitions import Transitions

CriticGradients = tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]
"""Loss, TD errors ``(critics, n)`` and targets ``(n,)``, without gradients, and the gradients of the critics."""
CriticLosses = tuple[Tensor, Tensor, Tensor]
"""Loss, TD errors ``(critics, n)`` and targets ``(n,)``, the last without gradients."""
PolicyLosses = tuple[list[Tensor], list[Tensor]]
"""Losses of the policy and of the temperature, if there is one, and other metrics without gradients."""


class ActorCriticUpdate(Update, ABC):
    """An update of an actor and its critics.

    L2 terms are part of the gradients, not of the reported losses. With `target_subset`, the minimum of the target is
    over critics drawn for this update. With `critic_dropout`, each pass of critics or targets draws its own dropped
    units.

    Args:
        networks: Networks with ``actor``, ``critics``, ``targets`` and ``encoder``, and a method ``reset`` that draws
            everything but the encoder again. If the encoder has parameters, which the critics' loss trains, also with
            ``target_encoder``; with a temperature, with ``log_alpha`` and ``automatic_entropy``. Without target
            networks, ``targets`` has no parameters.
        settings: Settings of the algorithm; None for its defaults. Of a learning rate with a schedule, the first value.
        **changes: Settings by name that replace those in `settings`.

    Attributes:
        betas: β₁ and β₂ of the optimizers of actor and critics.
        delays_targets: Whether target networks move in updates of the policy alone.
        loss_scale: Factor of the critics' loss.
        standard: Default settings.
        polyak: Function that moves target networks; compiled on a GPU if `torch_compile` is true, as optimizers are.
        loss: The critics' loss of rows that do not define one.
        policy: Parameters of the actor that learn, and the temperature if there is one.
        critics: Parameters of the critics and the encoder that learn.
        targets: Parameters of all target networks.
        sources: The parameters that `targets` track, in the same order.
        target_entropy: Target entropy in nats, if there is a temperature.
        updates: Number of updates so far.
        env_steps: Env steps at the last call of `after_updates`.
        resets_at_steps: Number of env steps in `reset_at` that have passed.
        policy_metrics: Metrics ``()`` of the last update of the policy, which later updates overwrite.
    """

    offers = frozenset({MEAN_ERROR, LARGEST_ERROR, REDUCIBLE_LOSS, TARGET, SCORING, ACTOR_WEIGHTS, CRITIC_LOSS})
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    delays_targets: ClassVar[bool] = False
    loss_scale: ClassVar[float] = 1.0
    standard: ClassVar[ActorCriticSettings] = ActorCriticSettings()
    polyak: Callable[[list[Tensor], list[Tensor], float], None] = staticmethod(polyak)

    def __init__(
        self,
        networks: Any,
        *,
        settings: Any = None,
        **changes: Any,
    ):
        self.settings: Any = replace(settings or self.standard, **changes)
        self.networks = networks
        self.loss = build_loss(self.settings.huber_delta, self.settings.pal_alpha, self.settings.critic_loss)
        self.grad_clips = {
            "actor": self.settings.actor_grad_clip or self.settings.grad_clip,
            "critic": self.settings.critic_grad_clip or self.settings.grad_clip,
            "alpha": None,
        }
        self.encoder = list(networks.encoder.parameters())
        self.actor = trainable(networks.actor)
        self.critics = trainable(networks.critics, networks.encoder)
        self.sources: list[Tensor] = [*networks.critics.parameters(), *self.encoder]
        self.targets: list[Tensor] = list(networks.targets.parameters())
        if self.encoder and self.targets:
            self.targets += networks.target_encoder.parameters()
        self.optimizers: dict[str, Any] = {
            "actor": self._optimizer(self.actor, self.settings.actor_lr, self.settings.actor_l2),
            "critic": self._optimizer(self.critics, self.settings.critic_lr, self.settings.critic_l2),
        }
        self.policy = self.actor
        self.policy_metrics = [self.actor[0].detach().new_zeros(())]
        if hasattr(networks, "log_alpha"):
            self._add_temperature()
        self.updates = 0
        self.env_steps = 0
        self.resets_at_steps = 0
        if self.settings.torch_compile:
            if self.encoder:
                raise ValueError(
                    "torch_compile is true; expected false with an encoder that learns, such as convolutions"
                )
            device = self.actor[0].device
            constant = is_constant(self)
            self.compiled_critic_gradients = compiled(self.critic_gradients, device, constant)
            self.compiled_policy_gradients = compiled(self.policy_gradients, device, constant)
            if at_once(device):
                self.polyak = compiled(polyak, device)
                for optimizer in self.optimizers.values():
                    optimizer.compile(compiled)

    def _optimizer(self, parameters: Sequence[Any], lr: float, l2: float) -> torch.optim.Optimizer:
        """Return Adam with the gradient of an L2 term (Sander et al. 2022), or AdamW with weight decay."""
        decay = self.settings.weight_decay
        if decay:
            optimizer: FastAdam = FastAdamW(parameters, lr, weight_decay=decay)
        else:
            optimizer = FastAdam(parameters, lr, weight_decay=l2)
        optimizer.param_groups[0]["betas"] = self.betas
        return optimizer

    def _add_temperature(self) -> None:
        """Add the target entropy, the optimizer of log α and its metrics."""
        log_alpha = self.networks.log_alpha
        entropy = self.settings.target_entropy
        if isinstance(entropy, str):
            entropy = {"auto": 1.0, "half": 0.5}[entropy] * self.networks.automatic_entropy()
        self.target_entropy = float(entropy)
        self.policy = [*self.actor, log_alpha]
        self.optimizers["alpha"] = FastAdam([log_alpha], self.settings.alpha_lr)
        self.policy_metrics = list(log_alpha.detach().new_zeros(3).unbind())

    def step(self, name: str) -> None:
        """Take one step of an optimizer down the gradients of its parameters."""
        optimizer: Any = self.optimizers[name]
        clip_gradients(optimizer.param_groups[0]["params"], self.grad_clips[name], self.settings.grad_clip_by)
        optimizer.apply()

    def learn(self, batch: Batch, rng: torch.Generator) -> UpdateResult:
        """Take one step of the critics, every `policy_delay` updates one of the policy, and move the targets."""
        obs, next_obs, m = views(batch.transitions, self.networks.encoder)
        alpha = [self.networks.log_alpha.detach().exp()] if "alpha" in self.optimizers else []

        loss, errors, target, scores = self.learn_critics(batch, obs, next_obs, m, rng)
        if self.policy_is_due:
            self.learn_policy(batch, obs, m, rng)
        if self.targets_are_due:
            self.move_targets()

        metrics = measure(loss, errors, target, policy_metrics=self.policy_metrics, alpha=alpha)
        return UpdateResult(errors.mean(dim=0), metrics, scores)

    def learn_critics(
        self, batch: Batch, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Take one step of the critics and of an encoder that learns; return loss, TD errors, targets and scores.

        `obs` and `next_obs` are encoded ``(n·m, d)``, with m views of each row.
        """
        for parameter in self.critics:
            parameter.grad = None  # the next gradients use its memory
        if self.settings.torch_compile and batch.critic_loss is None and batch.targets is None:
            noise = self.target_noise(batch.transitions, rng)
            rows = make_batch(batch)  # programs cannot read the columns that a batch of several sources joins on demand
            loss, errors, target, gradients = self.compiled_critic_gradients(rows, obs, next_obs, m, noise)
        else:
            loss, errors, target, gradients = self.critic_gradients(batch, obs, next_obs, m, rng)
        scores = self.scores(self.scores_wanted, batch.transitions, obs, m, errors, target)
        for parameter, gradient in zip(self.critics, gradients, strict=True):
            parameter.grad = gradient
        self.step("critic")
        return loss, errors, target, scores

    def critic_gradients(self, batch: Batch, obs: Tensor, next_obs: Tensor, m: int, rng: Any) -> CriticGradients:
        """Return the gradients of the critics' loss; arguments as in `learn_critics`, or `rng` from `target_noise`."""
        loss, errors, target = self.critic_losses(batch, obs, next_obs, m, rng)
        gradients = torch.autograd.grad(loss, self.critics, materialize_grads=True)
        return loss.detach(), errors.detach(), target, gradients

    def critic_losses(self, batch: Batch, obs: Tensor, next_obs: Tensor, m: int, rng: Any) -> CriticLosses:
        """Return the critics' loss, their TD errors and targets, with the arguments of `critic_gradients`."""
        rows = batch.transitions
        critics = self.networks.critics
        target = batch.targets
        if target is None:
            target = self.target_values(rows, next_obs, m, rng)
        outputs = critics.outputs(self.critic_inputs(rows, obs, m), critics.draw_dropped(obs, rng))
        errors = self.values_of_taken(outputs, rows, m) - target
        return self.critic_loss(errors, batch), errors, target

    def target_noise(self, rows: Transitions, rng: torch.Generator) -> Tensor | None:
        """Draw the noise ``(n·m, actions)`` of `target_values`; None if it draws nothing."""
        return next_noise(rows, count_views(rows), rng) if self.networks.actor.gaussian else None

    def learn_policy(self, batch: Batch, obs: Tensor, m: int, rng: torch.Generator) -> None:
        """Take one step of the policy, and of the temperature if there is one; set `policy_metrics`.

        Arguments are as in `learn_critics`.
        """
        for parameter in self.policy:
            parameter.grad = None  # the next gradients use its memory
        rows = batch.transitions
        given = (rows, self.actor_views(rows, obs, m), actor_row_weights(batch))
        if self.settings.torch_compile:
            metrics, gradients = self.compiled_policy_gradients(*given, self.policy_noise(rows, rng))
        else:
            metrics, gradients = self.policy_gradients(*given, rng)
        torch._foreach_copy_(self.policy_metrics, metrics)
        for parameter, gradient in zip(self.policy, gradients, strict=True):
            parameter.grad = gradient
        for name in self.optimizers:
            if name != "critic":
                self.step(name)

    def policy_gradients(
        self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any
    ) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        """Return metrics and the gradients of `policy`, with the arguments of `policy_losses`."""
        losses, others = self.policy_losses(rows, obs, weights, rng)
        gradients = torch.autograd.grad(losses, self.policy, materialize_grads=True)
        return [loss.detach() for loss in losses] + others, gradients

    def policy_noise(self, rows: Transitions, rng: torch.Generator) -> Tensor | None:
        """Draw the noise ``(n, actions)`` of `policy_losses`; None if it draws nothing."""
        return normal(flat_rows(rows.actions), rng) if self.networks.actor.gaussian else None

    @abstractmethod
    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        """Return the losses of the policy for n rows.

        `obs` are encoded ``(n, d)``; `weights` ``(n,)`` are None for equal weights; `rng` can be the noise of
        `policy_noise`.
        """

    def critic_loss(self, errors: Tensor, batch: Batch) -> Tensor:
        """Return the sum over the critics of the mean loss of their TD errors ``(critics, n)``, times `loss_scale`."""
        loss = self.loss if batch.critic_loss is None else batch.critic_loss.or_else(self.loss)
        weights = critic_weights(batch, errors)
        return (loss.values(errors) * (weights * (self.loss_scale / len(weights)))).sum()

    def critic_inputs(self, rows: Transitions, obs: Tensor, m: int) -> tuple[Tensor, ...]:
        """Return the blocks of the critics' inputs: encoded observations ``(n·m, d)``, and continuous actions."""
        if self.networks.actor.discrete:
            return (obs,)
        return obs, repeat_for_views(flat_rows(rows.actions), m)

    def values_of_taken(self, outputs: Tensor, rows: Transitions, m: int) -> Tensor:
        """Return the values ``(critics, n)`` of the actions in the rows, means over the views.

        `outputs` of critics are ``(critics, n·m, 1)``, or ``(critics, n·m, actions)`` for discrete actions.
        """
        if self.networks.actor.discrete:
            taken = repeat_for_views(rows.actions, m).expand(len(outputs), -1)
            outputs = outputs.gather(-1, taken.unsqueeze(-1))
        return mean_over_views(outputs.squeeze(-1), m)

    def target_views(self, rows: Transitions, next_obs: Tensor) -> Tensor:
        """Return next observations encoded by the target encoder, or `next_obs` if there is no target encoder."""
        if not (self.encoder and self.targets):
            return next_obs
        with torch.no_grad():
            return self.networks.target_encoder(rows.next_obs)

    def actor_views(self, rows: Transitions, obs: Tensor, m: int) -> Tensor:
        """Return encoded observations ``(n, d)`` for the actor's loss, which does not train the encoder."""
        return obs.detach() if m == 1 else self.networks.encoder(rows.obs)

    def lowest_target(self, inputs: Sequence[Tensor], rng: Any) -> Tensor:
        """Return the minimum ``(n, out)`` of the target networks' outputs, or their mean with `critic_target` "mean".

        With `target_subset`, it is over networks drawn for this update (Chen et al. 2021, arXiv:2101.05982).
        """
        targets = self.networks.targets
        size = self.settings.target_subset
        networks: Networks | None = None
        count: int | None = None
        if size is not None and size < targets.count:
            count = size
            drawn = torch.randperm(targets.count, generator=rng, device=rng.device)[:size]
            networks = drawn.tolist() if drawn.device.type == "cpu" else drawn
        dropped = targets.draw_dropped(inputs[0], rng, count)
        return self.combine(targets.outputs(inputs, dropped, networks))

    def combine(self, outputs: Tensor) -> Tensor:
        """Return the minimum ``(...)`` of critics' outputs ``(m, ...)``, or their mean with `critic_target` "mean"."""
        if self.settings.critic_target == "mean":
            return outputs.mean(dim=0)
        return outputs.amin(dim=0)

    def values_for_actor(self, inputs: Sequence[Tensor], rng: torch.Generator) -> Tensor:
        """Return the values ``(n, out)`` that the policy maximizes; only the blocks of inputs receive gradients."""
        critics = self.networks.critics
        target = "mean" if self.settings.critic_target == "mean" else self.settings.actor_target
        networks: Networks | None = None
        count: int | None = None
        if target == "first":
            networks = [0]
            count = 1
        dropped = critics.draw_dropped(inputs[0], rng, count)
        outputs = critics.outputs(inputs, dropped, networks, frozen=True)
        if len(outputs) == 1:
            return outputs[0]
        return outputs.mean(dim=0) if target == "mean" else outputs.min(dim=0).values

    def move_targets(self) -> None:
        """Move the target networks, if there are any, a share `tau` of the way."""
        if self.targets:
            self.polyak(self.targets, self.sources, self.settings.tau)

    @property
    def policy_is_due(self) -> bool:
        """Whether the next update is one of every `policy_delay` that also update the policy."""
        return (self.updates + 1) % self.settings.policy_delay == 0

    @property
    def targets_are_due(self) -> bool:
        """Whether the next update moves the target networks."""
        return self.policy_is_due or not self.delays_targets

    def phase(self) -> Hashable:
        return self.policy_is_due

    def finish(self, rng: torch.Generator) -> None:
        """Count an update; reset networks and optimizers after each `reset_interval` (Nikishin et al. 2022).

        The encoder is kept, as in arXiv:2205.07802, and so are learning rates, counts and stored rows.
        """
        self.updates += 1
        interval = self.settings.reset_interval
        if interval is not None and self.updates % interval == 0:
            self.reset(rng)

    def after_updates(self, env_steps: int, rng: torch.Generator) -> None:
        """Reset networks and optimizers once each number of env steps in `reset_at` has passed."""
        self.env_steps = env_steps
        passed = bisect.bisect_right(self.settings.reset_at or (), env_steps)
        if passed > self.resets_at_steps:
            self.resets_at_steps = passed
            self.reset(rng)

    def reset(self, rng: torch.Generator) -> None:
        """Draw all networks but the encoder again, and clear the optimizers' state."""
        self.networks.reset(rng)
        for optimizer in self.optimizers.values():
            optimizer.load_state_dict(optimizer.state_dict() | {"state": {}})

    @abstractmethod
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: Any) -> Tensor:
        """Return q_t ``(n,)`` without a gradient, the mean over the m views of each next observation.

        See `learn_critics` for the arguments; `rng` can also be the noise of `target_noise`.
        """

    def scores(
        self, names: Collection[str], rows: Transitions, obs: Tensor, m: int, errors: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Return scores ``(n,)`` by name, from results of an update before it moves the targets.

        `errors` are ``(critics, n)`` and `target` is q_t ``(n,)``, both without a gradient.
        """
        if not names:
            return {}
        found = {TARGET: target} if TARGET in names else {}
        if MEAN_ERROR in names:
            found[MEAN_ERROR] = errors.abs().mean(dim=0)
        if LARGEST_ERROR in names:
            found[LARGEST_ERROR] = errors.abs().amax(dim=0)
        if REDUCIBLE_LOSS in names:
            with torch.no_grad():
                target_obs = self.networks.target_encoder(rows.obs) if self.encoder else obs
                outputs = self.networks.targets.outputs(self.critic_inputs(rows, target_obs, m))
            target_errors = self.values_of_taken(outputs, rows, m) - target
            found[REDUCIBLE_LOSS] = (errors.square() - target_errors.square()).mean(dim=0)
        return found

    @torch.no_grad()
    def score(self, rows: Transitions, names: Collection[str], rng: torch.Generator) -> dict[str, Tensor]:
        obs, next_obs, m = views(rows, self.networks.encoder)
        target = self.target_values(rows, next_obs, m, rng)
        outputs = self.networks.critics.outputs(self.critic_inputs(rows, obs, m))
        errors = self.values_of_taken(outputs, rows, m) - target
        return self.scores(names, rows, obs, m, errors, target)

    def state_dict(self) -> dict[str, Any]:
        metrics = torch.stack(list(self.policy_metrics)).cpu().numpy()
        return {"updates": self.updates, "env_steps": self.env_steps, "policy_metrics": metrics}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = int(state["updates"])
        if "env_steps" in state:
            self.env_steps = int(state["env_steps"])
            self.resets_at_steps = bisect.bisect_right(self.settings.reset_at or (), self.env_steps)
        else:  # checkpoints of version 0.3.0
            self.resets_at_steps = int(state["resets_at_steps"])
        for metric, value in zip(self.policy_metrics, state["policy_metrics"], strict=True):
            metric.fill_(float(value))


def measure(
    loss: Tensor, errors: Tensor, target: Tensor, policy_metrics: Sequence[Tensor], alpha: Sequence[Tensor]
) -> Tensor:
    """Return the metrics ``(k, ...)`` of an update, or of the updates of several runs, in the order of `metrics`.

    `errors` are ``(..., critics, n)``, `target` is ``(..., n)``, and `alpha` the temperature before the update, if
    there is one.
    """
    values = (errors + target.unsqueeze(-2)).mean(dim=(-2, -1))
    return torch.stack([loss, *policy_metrics, *alpha, values])


def next_noise(rows: Transitions, m: int, rng: Randomness) -> Tensor:
    """Draw the policy's standard normal noise ``(n·m, actions)`` for the m views of each next observation."""
    return normal(repeat_for_views(flat_rows(rows.actions), m), rng)
