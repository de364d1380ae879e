"""What a policy is to those who act with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from interreplay.learning.networks.memory import Memory

POLICY_OUTPUT = "behavior"
"""Name of the column in which what the policy gave is stored."""


class Acted(NamedTuple):
    """Actions, and what the policy gave when it chose them.

    Attributes:
        actions: ``(n, *action_shape)``, in [−1, 1] or as numbers from 0 on.
        recorded: Columns ``(n, ...)`` by name, to compare policies by.
    """

    actions: Tensor
    recorded: dict[str, Tensor]


class Policy(nn.Module, ABC):
    """A policy: one network call, `output`, of which everything else is made.

    Attributes:
        discrete: Whether actions are numbers from 0 on; else they lie in [−1, 1].
        stochastic: Whether it is a distribution that `draw` draws from.
        gaussian: Whether what `record` gives is [mean; log standard deviation].
        noisy: Whether its layers have noise, which `noisy_output` draws.
        memory: What encoded observations pass through before `output` sees them; None where it sees them as they are.
    """

    discrete, stochastic, gaussian, noisy = False, False, False, False

    def __init__(self) -> None:
        super().__init__()
        self.memory: Memory | None = None

    @abstractmethod
    def output(self, obs: Tensor) -> Tensor:
        """Return what the network gives for encoded observations ``(n, inputs)``."""

    @abstractmethod
    def mode(self, output: Tensor) -> Tensor:
        """Return the greedy actions ``(n, *action_shape)``."""

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions ``(n, *action_shape)`` from the policy's distribution."""
        raise TypeError(f"{type(self).__name__} is no distribution to draw from")

    @abstractmethod
    def random(self, count: int, rng: torch.Generator) -> Tensor:
        """Draw `count` uniformly random actions on the device of `rng`."""

    @abstractmethod
    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return what is stored of the policy's output, columns ``(n, ...)`` by name."""

    @abstractmethod
    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return what is stored in its place for `count` uniformly random actions."""

    def noisy_output(self, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return what `output` does, of layers with noise drawn anew; `output` itself is without any."""
        raise TypeError(f"{type(self).__name__} has no noisy layers")

    def act(self, obs: Tensor) -> Tensor:
        """Return greedy actions for encoded observations ``(n, inputs)``."""
        return self.mode(self.output(obs))

    def sample(self, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions for encoded observations ``(n, inputs)``."""
        return self.draw(self.output(obs), rng)


class ContinuousPolicy(Policy):
    """A policy whose actions ``(n, size)`` lie in [−1, 1].

    Attributes:
        size: Numbers in an action.
    """

    size: int

    def random(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.rand((count, self.size), generator=rng, device=rng.device) * 2.0 - 1.0


class DiscretePolicy(Policy):
    """A policy whose actions ``(n,)`` are numbers from 0 on.

    Attributes:
        size: Number of actions.
    """

    discrete = True
    size: int

    def random(self, count: int, rng: torch.Generator) -> Tensor:
        return torch.randint(self.size, (count,), generator=rng, device=rng.device)
