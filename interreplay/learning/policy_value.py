"""Networks that give a policy and a value of one observation in one pass, for algorithms that learn from unrolls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from interreplay.learning.distributions import Categorical, Family, Normal
from interreplay.learning.fast.unrolls.small_layers import SmallBody
from interreplay.learning.fast.values.numpy_passes import are_small
from interreplay.learning.networks import MLP
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy, DiscretePolicy, Policy
from interreplay.learning.streams import ForwardRun

VALUE_OUTPUT = "values"
"""Name of the column in which the value is stored that the network gave when it acted."""


class PolicyValueLayers(nn.Module):
    """Fully connected layers from encoded observations ``(n, inputs)`` to [numbers of a policy; value] ``(n, m + 1)``.

    Gradients are by hand; those of the rows, where an encoder learns, go on by autograd.

    Args:
        inputs: Numbers in an encoded observation.
        numbers: m.
        hiddens: Widths of the hidden layers.
        shared: Whether policy and value have their hidden layers in common.
    """

    def __init__(self, inputs: int, numbers: int, hiddens: Sequence[int], shared: bool = True):
        super().__init__()
        self.widths = [numbers + 1] if shared else [numbers, 1]
        self.bodies = nn.ModuleList(MLP([inputs, *hiddens, width]) for width in self.widths)
        self._small: list[SmallBody] | None = None

    def _small_bodies(self) -> list[SmallBody]:
        """Return the networks in numpy where they are small, else none; looked at once, when all is set up."""
        if self._small is None:
            self._small = [SmallBody(body) for body in self.bodies] if are_small(self.bodies) else []
        return self._small

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self._small = None  # they may lie on another device now
        return super()._apply(*args, **kwargs)

    def outputs(self, rows: Tensor) -> Tensor:
        """Return outputs ``(n, m + 1)``, by autograd where gradients are on."""
        if not torch.is_grad_enabled() and (small := self._small_bodies()):
            return torch.from_numpy(_together([body.forward(rows.numpy())[-1] for body in small]))
        found = [body.outputs(rows)[0] for body in self.bodies]  # type: ignore[operator]
        return found[0] if len(found) == 1 else torch.cat(found, dim=-1)

    def run(self, rows: Tensor) -> ForwardRun:
        """Run a pass to learn from."""
        if not rows.requires_grad and (small := self._small_bodies()):
            return self._small_run(rows, small)
        alone = len(self.bodies) == 1 or not rows.requires_grad
        seen = rows if alone else rows.detach().requires_grad_()
        bodies: list[Any] = [*self.bodies]
        done = [body.passes.run(seen) for body in bodies]
        outputs = done[0].outputs[0] if len(done) == 1 else torch.cat([one.outputs[0] for one in done], dim=-1)

        def learn(gradients: Tensor) -> None:
            for body, one, part in zip(bodies, done, gradients.split(self.widths, dim=-1), strict=True):
                body.passes.learn(one, part.contiguous().unsqueeze(0))
            if not alone:
                rows.backward(seen.grad)

        return ForwardRun(outputs, learn)

    def _small_run(self, rows: Tensor, small: list[SmallBody]) -> ForwardRun:
        seen = [body.forward(rows.numpy()) for body in small]

        def learn(gradients: Tensor) -> None:
            begin = 0
            for body, one, width in zip(small, seen, self.widths, strict=True):
                body.learn(one, gradients.numpy()[:, begin : begin + width])
                begin += width

        return ForwardRun(torch.from_numpy(_together([one[-1] for one in seen])), learn)


def _together(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


class PolicyWithValue(Policy):
    """A policy whose network also gives the value: `output` is [numbers of the policy; value] ``(n, F + 1)``.

    Attributes:
        family: Of its distributions.
        layers: From encoded observations.
    """

    stochastic = True
    family: Family
    layers: PolicyValueLayers

    def output(self, obs: Tensor) -> Tensor:
        return self.layers.outputs(obs)

    def run(self, obs: Tensor) -> ForwardRun:
        """Run `output` to learn from."""
        return self.layers.run(obs)

    def mode(self, output: Tensor) -> Tensor:
        return self.family.mode(output[..., :-1])

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return self.family.draw(output[..., :-1], rng)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the numbers of the policy ``(n, F)``, and the values ``(n,)``."""
        return {POLICY_OUTPUT: output[..., :-1], VALUE_OUTPUT: output[..., -1]}


class CategoricalWithValue(PolicyWithValue, DiscretePolicy):
    """Probabilities of actions, by their logits, and the value.

    Args:
        inputs: Numbers in an encoded observation.
        actions: Number of actions.
        hiddens: Widths of the hidden layers.
        shared: Whether policy and value have these in common.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], shared: bool = True):
        super().__init__()
        self.family, self.size = Categorical(actions), actions
        self.layers = PolicyValueLayers(inputs, actions, hiddens, shared)

    def record_random(self, count: int) -> dict[str, Tensor]:
        return {POLICY_OUTPUT: torch.zeros(count, self.size), VALUE_OUTPUT: torch.zeros(count)}


class NormalWithValue(PolicyWithValue, ContinuousPolicy):
    """Independent normal actions, neither squashed nor bounded, and the value; see `Normal`.

    Args:
        inputs: Numbers in an encoded observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
        shared: Whether policy and value have these in common.
        free_log_std: Whether standard deviations are parameters of their own, the same in every state.
        log_std: Logarithm of the standard deviations at the start, where they are.
    """

    gaussian = True
    log_std: nn.Parameter | None

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int],
        shared: bool = True,
        free_log_std: bool = True,
        log_std: float = 0.0,
    ):
        super().__init__()
        self.family, self.size = Normal(actions), actions
        self.layers = PolicyValueLayers(inputs, actions if free_log_std else 2 * actions, hiddens, shared)
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std))) if free_log_std else None

    def output(self, obs: Tensor) -> Tensor:
        return self._whole(self.layers.outputs(obs), self.log_std)

    def run(self, obs: Tensor) -> ForwardRun:
        run, log_std, size = self.layers.run(obs), self.log_std, self.size
        if log_std is None:
            return run

        def learn(gradients: Tensor) -> None:
            mean, of_log_std, value = gradients.split([size, size, 1], dim=-1)
            log_std.grad = of_log_std.sum(dim=0)
            run.learn(torch.cat([mean, value], dim=-1))

        return ForwardRun(self._whole(run.outputs, log_std.detach()), learn)

    def _whole(self, outputs: Tensor, log_std: Tensor | None) -> Tensor:
        if log_std is None:
            return outputs
        mean, value = outputs.split([self.size, 1], dim=-1)
        return torch.cat([mean, log_std.expand_as(mean), value], dim=-1)

    def record_random(self, count: int) -> dict[str, Tensor]:
        log_std = torch.full((count, self.size), -0.5 * math.log(3.0))
        return {
            POLICY_OUTPUT: torch.cat([torch.zeros_like(log_std), log_std], dim=-1),
            VALUE_OUTPUT: torch.zeros(count),
        }


class PolicyValueNetworks(nn.Module):
    """What algorithms that learn from unrolls learn: a policy with its value; there are no target networks.

    Args:
        actor: The policy.
    """

    encoder: Any

    def __init__(self, actor: PolicyWithValue):
        super().__init__()
        self.actor, self.targets = actor, nn.Module()
