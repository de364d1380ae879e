"""Families of action distributions, as functions of what a network gives: probabilities, entropies, divergences."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

LOG_2PI = math.log(2.0 * math.pi)


class Family(ABC):
    """Distributions of one form, each described by numbers ``(..., F)``.

    Attributes:
        numbers: F.
    """

    numbers: int

    @abstractmethod
    def log_prob(self, given: Tensor, actions: Tensor) -> Tensor:
        """Return log π(a) ``(...)`` of actions ``(..., *action_shape)``."""

    @abstractmethod
    def entropy(self, given: Tensor) -> Tensor:
        """Return entropies ``(...)``."""

    @abstractmethod
    def kl(self, one: Tensor, other: Tensor) -> Tensor:
        """Return KL(one ‖ other) ``(...)``."""

    @abstractmethod
    def kl_to_implied(self, pi: Tensor, mu: Tensor, rho: float) -> Tensor:
        """Return KL(π ‖ π̃) ``(...)``, with π̃(a) ∝ min(ρ̄ µ(a), π(a)) the policy that V-trace's values are of.

        Raises:
            NotImplementedError: It has no closed form.
        """

    @abstractmethod
    def mode(self, given: Tensor) -> Tensor:
        """Return the most likely actions ``(..., *action_shape)``."""

    @abstractmethod
    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions for ``(n, F)``."""


class Categorical(Family):
    """Probabilities of A actions, by their logarithms up to a constant: ``(..., A)``.

    Args:
        actions: A.
    """

    def __init__(self, actions: int):
        self.numbers = actions

    def log_prob(self, given: Tensor, actions: Tensor) -> Tensor:
        return given.log_softmax(dim=-1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, given: Tensor) -> Tensor:
        logs = given.log_softmax(dim=-1)
        return -(logs.exp() * logs).sum(dim=-1)

    def kl(self, one: Tensor, other: Tensor) -> Tensor:
        logs = one.log_softmax(dim=-1)
        return (logs.exp() * (logs - other.log_softmax(dim=-1))).sum(dim=-1)

    def kl_to_implied(self, pi: Tensor, mu: Tensor, rho: float) -> Tensor:
        logs, bound = pi.log_softmax(dim=-1), mu.log_softmax(dim=-1) + math.log(rho)
        least = torch.minimum(logs, bound)
        return (logs.exp() * (logs - least)).sum(dim=-1) + least.logsumexp(dim=-1)

    def mode(self, given: Tensor) -> Tensor:
        return given.argmax(dim=-1)

    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        # The largest of logits plus Gumbel noise: sums of float32 probabilities need not reach 1.
        noise = torch.rand(given.shape, generator=rng, device=given.device, dtype=given.dtype)
        return (given - (-noise.clamp_(min=torch.finfo(noise.dtype).tiny).log()).log()).argmax(dim=-1)


class Normal(Family):
    """Independent normal numbers d, [means; logarithms of standard deviations] ``(..., 2d)``.

    Nothing is squashed or bounded: an action beyond [−1, 1] is learned from as it was drawn, and the environment gets
    the nearest one that its space has.

    Args:
        size: d.
    """

    def __init__(self, size: int):
        self.size, self.numbers = size, 2 * size

    def log_prob(self, given: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = given.chunk(2, dim=-1)
        standard = (actions.reshape(mean.shape) - mean) * torch.exp(-log_std)
        return -(0.5 * standard.square() + log_std).sum(dim=-1) - 0.5 * LOG_2PI * self.size

    def entropy(self, given: Tensor) -> Tensor:
        return given[..., self.size :].sum(dim=-1) + 0.5 * (1.0 + LOG_2PI) * self.size

    def kl(self, one: Tensor, other: Tensor) -> Tensor:
        (mean, log_std), (mean_other, log_other) = one.chunk(2, dim=-1), other.chunk(2, dim=-1)
        ratio = 2.0 * (log_std - log_other)
        shift = (mean - mean_other).square() * torch.exp(-2.0 * log_other)
        return 0.5 * (ratio.exp() + shift - 1.0 - ratio).sum(dim=-1)

    def kl_to_implied(self, pi: Tensor, mu: Tensor, rho: float) -> Tensor:
        raise NotImplementedError("the implied policy of two normal distributions is none, and has no closed form")

    def mode(self, given: Tensor) -> Tensor:
        return given[..., : self.size]

    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        mean, log_std = given.chunk(2, dim=-1)
        noise = torch.randn(mean.shape, generator=rng, device=mean.device, dtype=mean.dtype)
        return mean + log_std.exp() * noise
