"""Distributions of actions as functions of a network's outputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LOG_2PI = math.log(2.0 * math.pi)
LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the log standard deviation (Haarnoja et al. 2018, arXiv:1812.05905, appendix and code)."""


class SquashedGaussian(torch.autograd.Function):
    """Actions and their log density, with a hand-written backward pass; see `sample_squashed_gaussian`.

    With the gradient g of a and the gradient h of log π, the gradient of μ is g·(1 − a²) + 2a·h, as the derivative of
    the squashing term with respect to u is 2a. The gradient of log σ is the gradient of μ times σ·ε, minus h, and 0
    where log σ was clamped.
    """

    @staticmethod
    def forward(ctx: Any, parameters: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions ``(n, d)`` and log π ``(n,)`` for parameters ``(n, 2d)`` and noise ``(n, d)``."""
        actions, log_probs, spread, inside = squashed_gaussian(parameters, noise)
        ctx.save_for_backward(actions, spread, inside)
        return actions, log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_actions: Tensor, of_log_probs: Tensor) -> tuple[Tensor, None]:
        actions, spread, inside = ctx.saved_tensors
        h = of_log_probs.unsqueeze(-1)
        of_mean = torch.addcmul(of_actions, actions, torch.addcmul(h + h, of_actions, actions, value=-1.0))
        of_log_std = torch.addcmul(-h, of_mean, spread).mul_(inside)
        return torch.cat([of_mean, of_log_std], dim=-1), None


def sample_squashed_gaussian(parameters: Tensor, noise: Tensor, plain: bool = False) -> tuple[Tensor, Tensor]:
    """Sample a = tanh(u), u = μ + σ·ε, as SAC's policy does (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    log π = Σ log N(u; μ, σ) − log(1 − tanh² u). The last term is computed as 2·(log 2 − u − softplus(−2u)), which stays
    exact for large |u|.

    Args:
        parameters: [μ; log σ] ``(n, 2d)``, log σ before it is clamped to `LOG_STD_RANGE`.
        noise: ε ``(n, d)``, standard normal.
        plain: Whether autograd differentiates each operation. Compiled functions always do so, because PyTorch 2.11
            compiles the hand-written backward pass to a different gradient.

    Returns:
        Actions ``(n, d)`` in [−1, 1], and log π ``(n,)``.
    """
    if torch.is_grad_enabled() and not (plain or torch.compiler.is_compiling()):
        return SquashedGaussian.apply(parameters, noise)
    return squashed_gaussian(parameters, noise)[:2]


def squashed_gaussian(parameters: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return actions ``(n, d)``, log π ``(n,)``, σ·ε ``(n, d)``, and where log σ was not clamped ``(n, d)``."""
    mean, given_log_std = parameters.chunk(2, dim=-1)
    log_std = given_log_std.clamp(*LOG_STD_RANGE)
    spread = log_std.exp() * noise
    raw = mean + spread
    actions = torch.tanh(raw)
    # log σ − 2·(softplus(−2u) + u) + ½ε², plus the constants, is −log π.
    squash = torch.sub(raw, nn.functional.softplus(raw, beta=-2.0), alpha=2.0)
    terms = torch.addcmul(torch.sub(log_std, squash, alpha=2.0), noise, noise, value=0.5)
    constant = 2.0 * math.log(2.0) + 0.5 * LOG_2PI
    log_probs = terms.sum(dim=-1).add_(constant * noise.shape[-1]).neg_()
    return actions, log_probs, spread, log_std.eq(given_log_std)


class Family(ABC):
    """A family of distributions, each described by F numbers ``(..., F)``.

    Attributes:
        numbers: Number F of numbers that describe a distribution.
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
    def mode(self, given: Tensor) -> Tensor:
        """Return the most likely actions ``(..., *action_shape)``."""

    @abstractmethod
    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        """Draw actions ``(n, *action_shape)`` for numbers ``(n, F)``."""


class Categorical(Family):
    """Categorical distributions of A actions, given by logits ``(..., A)``."""

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
        """Return KL(π ‖ π̃) ``(...)`` to the policy π̃(a) ∝ min(ρ̄ µ(a), π(a)) that V-trace evaluates."""
        logs = pi.log_softmax(dim=-1)
        bound = mu.log_softmax(dim=-1) + math.log(rho)
        least = torch.minimum(logs, bound)
        return (logs.exp() * (logs - least)).sum(dim=-1) + least.logsumexp(dim=-1)

    def mode(self, given: Tensor) -> Tensor:
        return given.argmax(dim=-1)

    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        # The largest of logits plus Gumbel noise: sums of float32 probabilities need not reach 1.
        noise = torch.rand(given.shape, generator=rng, device=given.device, dtype=given.dtype)
        return (given - (-noise.clamp_(min=torch.finfo(noise.dtype).tiny).log()).log()).argmax(dim=-1)


class Normal(Family):
    """Independent normal distributions of d numbers, given by [means; log standard deviations] ``(..., 2d)``.

    Actions are neither squashed nor bounded. The environment receives the nearest action of its space; the update uses
    the action that was drawn.
    """

    def __init__(self, size: int):
        self.size = size
        self.numbers = 2 * size

    def log_prob(self, given: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = given.chunk(2, dim=-1)
        standard = (actions.reshape(mean.shape) - mean) * torch.exp(-log_std)
        return -(0.5 * standard.square() + log_std).sum(dim=-1) - 0.5 * LOG_2PI * self.size

    def entropy(self, given: Tensor) -> Tensor:
        return given[..., self.size :].sum(dim=-1) + 0.5 * (1.0 + LOG_2PI) * self.size

    def kl(self, one: Tensor, other: Tensor) -> Tensor:
        mean, log_std = one.chunk(2, dim=-1)
        mean_other, log_other = other.chunk(2, dim=-1)
        ratio = 2.0 * (log_std - log_other)
        shift = (mean - mean_other).square() * torch.exp(-2.0 * log_other)
        return 0.5 * (ratio.exp() + shift - 1.0 - ratio).sum(dim=-1)

    def mode(self, given: Tensor) -> Tensor:
        return given[..., : self.size]

    def draw(self, given: Tensor, rng: torch.Generator) -> Tensor:
        mean, log_std = given.chunk(2, dim=-1)
        noise = torch.randn(mean.shape, generator=rng, device=mean.device, dtype=mean.dtype)
        return mean + log_std.exp() * noise
