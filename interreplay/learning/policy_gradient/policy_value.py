"""Networks with a policy and a value in one pass, for algorithms that learn from unrolls, and their initial weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks.distributions import Categorical, Family, Normal
from interreplay.learning.networks.layers import MLP, BatchedMLP
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy, DiscretePolicy, Policy

VALUE_OUTPUT = "values"
"""Name of the column with the values at the time of acting."""
GAIN = math.sqrt(2.0)
"""Gain of the weights of layers followed by ReLU."""
POLICY_GAIN = 0.01
"""Gain of the weights of a policy's last layer: initially, all actions are nearly equally likely."""


class PolicyValueLayers(nn.Module):
    """Fully connected layers from encoded observations ``(n, inputs)`` to [numbers of a policy; value] ``(n, m + 1)``.

    Args:
        inputs: Width of an encoded observation.
        numbers: Number of outputs of the policy m.
        hiddens: Widths of the hidden layers.
        shared: Whether policy and value share their hidden layers.
    """

    def __init__(self, inputs: int, numbers: int, hiddens: Sequence[int], shared: bool = True):
        super().__init__()
        self.widths: list[int] = [numbers + 1] if shared else [numbers, 1]
        self.bodies = nn.ModuleList(MLP([inputs, *hiddens, width], in_numpy=True) for width in self.widths)

    def outputs(self, rows: Tensor) -> Tensor:
        """Return outputs ``(n, m + 1)``."""
        found = [body(rows) for body in self.bodies]
        return found[0] if len(found) == 1 else torch.cat(found, dim=-1)


class PolicyWithValue(Policy):
    """A policy and value function in one network: `output` is [numbers of the policy; value] ``(n, F + 1)``.

    Attributes:
        family: Family of its distributions.
        layers: Layers from encoded observations to `output`.
    """

    stochastic = True
    family: Family
    layers: PolicyValueLayers

    def output(self, obs: Tensor) -> Tensor:
        return self.layers.outputs(obs)

    def mode(self, output: Tensor) -> Tensor:
        return self.family.mode(output[..., :-1])

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return self.family.draw(output[..., :-1], rng)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the policy's numbers ``(n, F)`` and the values ``(n,)``."""
        return {POLICY_OUTPUT: output[..., :-1], VALUE_OUTPUT: output[..., -1]}


class CategoricalWithValue(PolicyWithValue, DiscretePolicy):
    """A categorical policy, given by its logits, with its value; arguments as in `PolicyValueLayers`."""

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], shared: bool = True):
        super().__init__()
        self.family = Categorical(actions)
        self.size = actions
        self.layers = PolicyValueLayers(inputs, actions, hiddens, shared)

    def record_random(self, count: int) -> dict[str, Tensor]:
        return {POLICY_OUTPUT: torch.zeros(count, self.size), VALUE_OUTPUT: torch.zeros(count)}


class NormalWithValue(PolicyWithValue, ContinuousPolicy):
    """A policy with independent normal actions, neither squashed nor bounded, with its value; see `Normal`.

    Args:
        inputs: Width of an encoded observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers.
        shared: Whether policy and value share their hidden layers.
        free_log_std: Whether the standard deviations are parameters that do not depend on the state.
        log_std: Initial log standard deviation, if `free_log_std`.
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
        self.family = Normal(actions)
        self.size = actions
        self.log_std = None
        numbers = 2 * actions
        if free_log_std:
            self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))
            numbers = actions
        self.layers = PolicyValueLayers(inputs, numbers, hiddens, shared)

    def output(self, obs: Tensor) -> Tensor:
        outputs = self.layers.outputs(obs)
        if self.log_std is None:
            return outputs
        mean, value = outputs.split([self.size, 1], dim=-1)
        return torch.cat([mean, self.log_std.expand_as(mean), value], dim=-1)

    def record_random(self, count: int) -> dict[str, Tensor]:
        log_std = torch.full((count, self.size), -0.5 * math.log(3.0))
        return {
            POLICY_OUTPUT: torch.cat([torch.zeros_like(log_std), log_std], dim=-1),
            VALUE_OUTPUT: torch.zeros(count),
        }


class PolicyValueNetworks(nn.Module):
    """The networks of algorithms that learn from unrolls: a policy with its value, without target networks."""

    encoder: Any

    def __init__(self, actor: PolicyWithValue):
        super().__init__()
        self.actor = actor
        self.targets = nn.Module()


@torch.no_grad()
def make_orthogonal(networks: nn.Module) -> None:
    """Initialize weights orthogonally with gain √2, in the policy's last layer `POLICY_GAIN`, in the value's 1.

    As in OpenAI Baselines and Stable-Baselines3's A2C and PPO (Saxe et al. 2014, arXiv:1312.6120; compared by
    Andrychowicz et al. 2021, arXiv:2006.05990). Biases are set to zero. PyTorch's default, uniform within
    ±1/√fan_in, reduces the differences between images by a factor of 2.4 in every layer.
    """
    for part in networks.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.weight.copy_(orthogonal(part.weight.shape, GAIN))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, PolicyValueLayers) and part.widths:
            bodies: list[BatchedMLP] = [*part.bodies]
            for body, outputs in zip(bodies, part.widths, strict=True):
                for weight, bias in zip(body.weights, body.biases, strict=True):
                    weight[0] = orthogonal(weight[0].shape, GAIN)
                    nn.init.zeros_(bias)
                last = body.weights[-1][0]
                numbers = outputs - (body is bodies[-1])  # the last output of the last network is the value
                last[:, :numbers] = orthogonal((len(last), numbers), POLICY_GAIN)
                last[:, numbers:] = orthogonal((len(last), outputs - numbers), 1.0)
    for part in networks.modules():
        if isinstance(part, PolicyValueLayers) and not part.widths:
            for listed, gain in zip(part.bodies, (POLICY_GAIN, 1.0), strict=True):
                layer: Any = listed.last_linear
                if layer is not None:
                    layer.weight.copy_(orthogonal(layer.weight.shape, gain))


def orthogonal(shape: Sequence[int], gain: float) -> Tensor:
    """Return weights of a shape: an orthogonal matrix, with the first dimension as rows, times `gain`."""
    weights = torch.empty(*shape)
    return nn.init.orthogonal_(weights, gain) if weights.numel() else weights
