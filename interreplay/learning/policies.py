"""Policies: their interface, and policies with fully connected layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from interreplay.learning.networks.layers import MLP
from interreplay.learning.networks.memory import Memory
from interreplay.learning.networks.residual_layers import ResidualMLP

POLICY_OUTPUT = "behavior"
"""Name of the column with the outputs of the policy."""


class Policy(nn.Module, ABC):
    """A policy. All other methods use the result of one network call, `output`.

    Attributes:
        discrete: Whether actions are indices; otherwise they are in [−1, 1].
        stochastic: Whether `draw` samples from a distribution.
        gaussian: Whether `record` returns [mean; log standard deviation].
        noisy: Whether its layers have noise, which `noisy_output` draws.
        memory: Recurrent layer between the encoder and `output`, or None.
    """

    discrete = False
    stochastic = False
    gaussian = False
    noisy = False

    def __init__(self) -> None:
        super().__init__()
        self.memory: Memory | None = None

    @abstractmethod
    def output(self, obs: Tensor) -> Tensor:
        """Return the outputs of the network for encoded observations ``(n, inputs)``."""

    @abstractmethod
    def mode(self, output: Tensor) -> Tensor:
        """Return the greedy actions ``(n, *action_shape)``."""

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions ``(n, *action_shape)`` from the policy's distribution."""
        raise TypeError(f"{type(self).__name__} is deterministic; expected a stochastic policy")

    @abstractmethod
    def random(self, count: int, rng: torch.Generator) -> Tensor:
        """Draw `count` uniformly random actions on the device of `rng`."""

    @abstractmethod
    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the stored columns ``(n, ...)`` of the policy's output by name."""

    @abstractmethod
    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return the columns of `record` for `count` uniformly random actions."""

    def noisy_output(self, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return the outputs of the network with newly drawn noise; `output` is without noise."""
        raise TypeError(f"{type(self).__name__} has no noisy layers")

    def act(self, obs: Tensor) -> Tensor:
        """Return greedy actions for encoded observations ``(n, inputs)``."""
        return self.mode(self.output(obs))

    def sample(self, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions for encoded observations ``(n, inputs)``."""
        return self.draw(self.output(obs), rng)


class ContinuousPolicy(Policy):
    """A policy with actions ``(n, size)`` in [−1, 1].

    Attributes:
        size: Width of an action.
    """

    size: int

    def random(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.rand((count, self.size), generator=rng, device=rng.device) * 2.0 - 1.0


class DiscretePolicy(Policy):
    """A policy with discrete actions ``(n,)``, indices from 0.

    Attributes:
        size: Number of actions.
    """

    discrete = True
    size: int

    def random(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.randint(self.size, (count,), generator=rng, device=rng.device)

    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return the probabilities ``(n, A)`` of uniform actions."""
        return {POLICY_OUTPUT: torch.full((count, self.size), 1.0 / self.size)}


class FeedforwardPolicy(Policy):
    """A policy with fully connected layers or residual blocks.

    Args:
        inputs: Width of an encoded observation.
        actions: Width of an action, or number of discrete actions.
        hiddens: Widths of the hidden layers.
        blocks: Number of residual blocks, see `ResidualMLP`; 0 for plain layers.
        width: Width of a network with residual blocks.

    Attributes:
        outputs_per_action: Outputs of the network per width or number of actions.
        residual_class: Class of networks with residual blocks.
    """

    outputs_per_action: ClassVar[int] = 1
    residual_class: ClassVar[type[ResidualMLP]] = ResidualMLP

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], blocks: int = 0, width: int = 128):
        super().__init__()
        outputs = self.outputs_per_action * actions
        self.body: Any = MLP([inputs, *hiddens, outputs])
        if blocks:
            self.body = self.residual_class(1, inputs, width, blocks, outputs)
        self.size = actions

    def output(self, obs: Tensor) -> Tensor:
        return self.body.outputs(obs)[0]
