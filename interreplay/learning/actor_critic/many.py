"""Updates of many independent runs as one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, CriticLosses, PolicyLosses, measure
from interreplay.learning.actor_critic.compilation import compiled, is_constant
from interreplay.learning.actor_critic.crossq import CrossQUpdate
from interreplay.learning.networks.batched_layers import at_once
from interreplay.learning.networks.optimizers import FastAdam
from interreplay.learning.update import (
    Batch,
    Update,
    UpdateResult,
    actor_row_weights,
    list_columns,
    replace_columns,
    views,
)

NOT_TOGETHER = (
    *("grad_clip", "actor_grad_clip", "critic_grad_clip", "critic_dropout"),
    *("target_subset", "reset_interval", "reset_at"),
)
"""Settings that do not support a joint update of several runs."""
REPLACED = (
    *("update", "learn", "learn_critics", "critic_gradients", "learn_policy", "policy_gradients"),
    *("step", "move_targets"),
)
"""Methods of an update that joint updates do not call."""
UNREAD = ("exploration", "exploration_sigma", "exploration_theta", "initial_alpha")
"""Settings that joint updates do not read."""


class ManyUpdates(Update):
    """Updates of R independent runs of one algorithm as one update.

    Networks, target networks, optimizers and temperatures of all runs are stacked, ``(R, ...)``, and those of each run
    become views of the stacks: policies act, are evaluated and are saved as before. Each run has its own batches and
    its own generator, so that it learns what it would learn alone, up to rounding. The runs make equally many updates.

    Batches have columns ``(R, n, ...)``, see `Batch.stack`, and `rng` is a list of R generators. Results have errors
    ``(R, n)`` and metrics ``(k, R)``.

    Args:
        updates: The runs' updates, with equal settings and networks of equal shapes. Afterwards, they must not learn or
            load a state by themselves.

    Attributes:
        updates: The runs' updates.

    Raises:
        ValueError: The updates differ, or have a setting of `NOT_TOGETHER` or an encoder that learns, or are CrossQ's.
    """

    def __init__(self, updates: Sequence[ActorCriticUpdate]):
        check_alike(updates)
        first = updates[0]
        for update in updates:
            if update.updates != first.updates:
                raise ValueError(f"the runs made {first.updates} and {update.updates} updates; expected equally many")
        self.updates = list(updates)
        self.metrics = first.metrics
        self._one = OneRun(first)
        self._stack_networks()
        self.optimizers: dict[str, Any] = {name: self._stack_optimizer(name) for name in first.optimizers}
        self._critics = self._find_stacks(first.critics)
        self._policy = self._find_stacks(first.policy)
        self._targets = self._find_stacks(first.targets)
        self._target_sources = self._find_stacks(first.sources)
        self._policy_metrics = list(map(torch.stack, zip(*(update.policy_metrics for update in updates), strict=True)))
        for run, update in enumerate(updates):
            update.policy_metrics = [values[run] for values in self._policy_metrics]
        self._critic_gradients = self.critic_gradients
        self._policy_gradients = self.policy_gradients
        if first.settings.torch_compile:
            device = first.actor[0].device
            constant = is_constant(first)
            self._critic_gradients = compiled(self.critic_gradients, device, constant)
            self._policy_gradients = compiled(self.policy_gradients, device, constant)

    def _stack_networks(self) -> None:
        """Stack parameters and buffers, and replace those of the runs by views of the stacks."""
        self._stacks: dict[str, Tensor] = {}
        runs = [get_tensors(update.networks) for update in self.updates]
        for name, tensor in runs[0].items():
            stack = torch.stack([tensors[name].detach() for tensors in runs])
            for run, tensors in enumerate(runs):
                tensors[name].data = stack[run]
            self._stacks[name] = stack.requires_grad_(tensor.requires_grad)

    def _find_stacks(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the stacks of parameters of the first run."""
        names = {id(tensor): name for name, tensor in get_tensors(self.updates[0].networks).items()}
        return [self._stacks[names[id(tensor)]] for tensor in tensors]

    def _stack_optimizer(self, name: str) -> FastAdam:
        """Return the optimizer of the stacks; the states of the runs' optimizers become views of its state."""
        optimizers: list[FastAdam] = [update.optimizers[name] for update in self.updates]
        group = optimizers[0].param_groups[0]
        stacks: list[Any] = self._find_stacks(group["params"])
        made = type(optimizers[0])(stacks, group["lr"], weight_decay=group["weight_decay"], eps=group["eps"])
        made.param_groups[0]["betas"] = group["betas"]
        for optimizer in optimizers:
            optimizer.moments()
        for place, stack in enumerate(stacks):
            states = []
            for optimizer in optimizers:
                parameter = optimizer.param_groups[0]["params"][place]
                states.append(optimizer.state[parameter])
            made.state[stack] = {"step": states[0]["step"]}
            for moment in ("exp_avg", "exp_avg_sq"):
                made.state[stack][moment] = torch.stack([state[moment] for state in states])
                for run, state in enumerate(states):
                    state[moment] = made.state[stack][moment][run]
            for state in states:
                state["step"] = states[0]["step"]
        if self.updates[0].settings.torch_compile and at_once(stacks[0].device):
            made.compile(compiled)
        return made

    def learn(self, batch: Batch, rng: Sequence[torch.Generator]) -> UpdateResult:
        first = self.updates[0]
        alpha = [self._stacks["log_alpha"].detach().exp()] if "alpha" in self.optimizers else []

        noise = self._draw("target_noise", batch, rng)
        loss, errors, target, gradients = self._critic_gradients(batch, noise)
        set_gradients(self._critics, gradients)
        self.optimizers["critic"].apply()

        if first.policy_is_due:
            noise = self._draw("policy_noise", batch, rng)
            metrics, gradients = self._policy_gradients(batch, noise)
            torch._foreach_copy_(self._policy_metrics, metrics)
            set_gradients(self._policy, gradients)
            for name, optimizer in self.optimizers.items():
                if name != "critic":
                    optimizer.apply()
        if first.targets_are_due and self._targets:
            first.polyak(self._targets, self._target_sources, first.settings.tau)

        return UpdateResult(
            errors.mean(dim=-2), measure(loss, errors, target, policy_metrics=self._policy_metrics, alpha=alpha)
        )

    def _draw(self, name: str, batch: Batch, rng: Sequence[torch.Generator]) -> Tensor | None:
        """Return the noise ``(R, ...)`` that a method of the updates draws for each run; None if it draws nothing."""
        drawn = []
        for run, (update, generator) in enumerate(zip(self.updates, rng, strict=True)):
            noise = getattr(update, name)(batch.transitions[run], generator)
            if noise is None:
                return None
            drawn.append(noise)
        return torch.stack(drawn)

    def critic_gradients(self, batch: Batch, noise: Tensor | None) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
        """Return losses ``(R,)``, TD errors ``(R, critics, n)``, targets ``(R, n)`` and gradients of the stacks."""
        losses, errors, targets = self._call_runs("critic_losses", batch, noise)
        gradients = torch.autograd.grad(losses.sum(), self._critics, materialize_grads=True)
        return losses.detach(), errors.detach(), targets, gradients

    def policy_gradients(self, batch: Batch, noise: Tensor | None) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        """Return metrics ``(R,)`` and gradients of the stacks."""
        losses, others = self._call_runs("policy_losses", batch, noise)
        gradients = torch.autograd.grad(torch.stack(losses).sum(), self._policy, materialize_grads=True)
        return [loss.detach() for loss in losses] + others, gradients

    def _call_runs(self, name: str, batch: Batch | Observations, noise: Tensor | None) -> Any:
        """Return the stacked results of a method of `OneRun` for each run."""

        def call_one(tensors: dict[str, Tensor], columns: list[Tensor], noise: Tensor | None) -> Any:
            named = {f"networks.{key}": tensor for key, tensor in tensors.items()}
            return functional_call(self._one, named, (name, replace_columns(batch, columns), noise))

        axes = (0, 0, None if noise is None else 0)
        return vmap(call_one, in_dims=axes)(self._stacks, list_columns(batch), noise)

    def act(self, obs: Tensor, rng: Sequence[torch.Generator]) -> Tensor:
        """Return actions ``(R, n, actions)`` of the Gaussian policies for observations ``(R, n, d)``."""
        shape = (obs.shape[1], self.updates[0].networks.actor.size)
        noise = []
        for own in rng:
            noise.append(torch.randn(shape, generator=own, device=obs.device, dtype=obs.dtype))
        with torch.no_grad():
            return self._call_runs("actions", Observations(obs), torch.stack(noise))

    def phase(self) -> Hashable:
        return self.updates[0].phase()

    def finish(self, rng: Any) -> None:
        for update, generator in zip(self.updates, rng, strict=True):
            update.finish(generator)


class Observations(NamedTuple):
    """Observations ``(..., n, d)`` to act on."""

    obs: Tensor

    def map(self, fn: Callable[[Tensor], Tensor]) -> Observations:
        """Return observations with `fn` applied."""
        return Observations(fn(self.obs))


class OneRun(nn.Module):
    """The losses of one run as functions of its tensors, which `torch.func.functional_call` replaces."""

    def __init__(self, update: ActorCriticUpdate):
        super().__init__()
        self.networks = copy.deepcopy(update.networks)
        for module in self.networks.modules():
            if hasattr(module, "plain"):  # `BatchedMLP` and listed layers
                module.plain = True
        self._update = copy.copy(update)
        self._update.networks = self.networks

    def forward(self, name: str, batch: Any, noise: Tensor | None) -> CriticLosses | PolicyLosses | Tensor:
        """Return "critic_losses" or "policy_losses" of a batch, or "actions" for observations.

        `noise` is standard normal, or None if none is needed.
        """
        update = self._update
        if name == "actions":
            return self.networks.actor(self.networks.encoder(batch.obs), noise)[0]
        obs, next_obs, m = views(batch.transitions, self.networks.encoder)
        if name == "critic_losses":
            return update.critic_losses(batch, obs, next_obs, m, noise)
        rows = batch.transitions
        return update.policy_losses(rows, update.actor_views(rows, obs, m), actor_row_weights(batch), noise)


def set_gradients(stacks: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Set the gradients of contiguous stacks, in the same order in memory, as the kernel of `FastAdam` requires."""
    for stack, gradient in zip(stacks, gradients, strict=True):
        stack.grad = gradient.contiguous()  # the gradients of `nn.Linear` are transposed


def check_alike(updates: Sequence[ActorCriticUpdate]) -> None:
    """Raise a ValueError if the updates of several runs cannot be one update."""
    first = updates[0]
    if not isinstance(first, ActorCriticUpdate) or isinstance(first, CrossQUpdate):
        raise ValueError(
            f"the algorithm learns by {type(first).__name__}; expected SAC, TQC, TD3 or DDPG for several runs"
        )
    for name in REPLACED:
        if getattr(type(first), name) is not getattr(ActorCriticUpdate, name):
            raise ValueError(f"{type(first).__name__} has its own {name}; expected none in updates of several runs")
    for name in NOT_TOGETHER:
        if getattr(first.settings, name, None):
            raise ValueError(f"{name} is {getattr(first.settings, name)!r}; expected none in updates of several runs")
    if first.encoder:
        raise ValueError("the encoder learns; expected one without parameters in updates of several runs")
    for update in updates:
        if type(update) is not type(first):
            raise ValueError(
                f"the runs have {type(first).__name__} and {type(update).__name__}; expected one algorithm"
            )
        for field in fields(first.settings):
            one = getattr(first.settings, field.name)
            other = getattr(update.settings, field.name)
            if field.name not in UNREAD and one != other:
                raise ValueError(f"{field.name} of the runs is {one} and {other}; expected equal settings of updates")
        if get_shapes(update.networks) != get_shapes(first.networks):
            raise ValueError(
                "networks of the runs have different shapes; expected equal observations, actions and widths"
            )


def get_shapes(networks: nn.Module) -> dict[str, torch.Size]:
    """Return the shapes of parameters and buffers by name."""
    return {name: tensor.shape for name, tensor in get_tensors(networks).items()}


def get_tensors(networks: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name."""
    return dict(networks.named_parameters()) | dict(networks.named_buffers())
