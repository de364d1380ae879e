"""What the outputs of a value network stand for: a mean, a distribution over atoms, or quantiles of returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from interreplay.learning.losses import CriticLoss, Huber, loss_of


class Judged(NamedTuple):
    """What targets say about predictions, without gradients.

    Attributes:
        losses: ``(n,)``.
        errors: ``(n,)``; their magnitudes serve as priorities.
        slopes: Gradient of each row's loss by its outputs, ``(n, N)``.
    """

    losses: Tensor
    errors: Tensor
    slopes: Tensor


class ValueHead(nn.Module, ABC):
    """N numbers per action, and what they say about its return.

    Attributes:
        numbers: N.
    """

    numbers: int

    @abstractmethod
    def values(self, outputs: Tensor) -> Tensor:
        """Return expected returns ``(...)`` of outputs ``(..., N)``."""

    @abstractmethod
    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        """Return what to predict, of the kind that `losses` takes.

        Args:
            following: Outputs for the next observation and the action chosen there, ``(n, N)``.
            rewards: ``(n,)``.
            discounts: ``(n,)``.

        Returns:
            ``(n, N)``, without a gradient.
        """

    @abstractmethod
    def losses(self, chosen: Tensor, target: Tensor) -> Tensor:
        """Return losses ``(n,)`` of outputs for the actions taken, ``(n, N)``: the definition, for autograd."""

    @abstractmethod
    def judge(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> Judged:
        """Return the same losses, what their gradient is, and the errors.

        Args:
            chosen: ``(n·m, N)``, those of the m views of a row one after the other.
            target: ``(n·m, N)``.
            m: Views of each row.
            loss: What rows bring along, which `Mean` takes in place of its own.
        """


class Mean(ValueHead):
    """The expected return alone (Mnih et al. 2015, Nature 518). Errors are TD errors, prediction less target.

    Args:
        huber_delta: Error from which on the loss is linear; None for a square everywhere.
    """

    numbers = 1

    def __init__(self, huber_delta: float | None = 1.0):
        super().__init__()
        self.huber_delta = huber_delta

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.squeeze(-1)

    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        return torch.addcmul(rewards, discounts, following.squeeze(-1)).unsqueeze(-1)

    def losses(self, chosen: Tensor, target: Tensor) -> Tensor:
        return loss_of(self.huber_delta, None).values((chosen - target).squeeze(-1))

    def judge(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> Judged:
        errors = chosen - target
        if loss is not None:  # of errors (m, n)
            loss, views = loss.or_else(loss_of(self.huber_delta, None)), errors.view(-1, m).T
            losses, slopes = (found.T.reshape(-1) for found in (loss.values(views), loss.slopes(views)))
            return Judged(losses, errors.squeeze(-1), slopes.unsqueeze(-1))
        slopes = errors if self.huber_delta is None else errors.clamp(-self.huber_delta, self.huber_delta)
        losses = slopes * torch.sub(errors, slopes, alpha=0.5)  # ½e² within, d·(|e| − ½d) outside
        return Judged(losses.squeeze(-1), errors.squeeze(-1), slopes)


class Categorical(ValueHead):
    """Probabilities of N returns evenly spaced over a range (C51; Bellemare et al. 2017, arXiv:1707.06887).

    Outputs are logits. The loss is the cross entropy; errors are KL(target ‖ prediction), which is 0 at the optimum.

    Args:
        atoms: N, at least 2.
        low: The smallest return.
        high: The largest.

    Raises:
        ValueError: For fewer atoms, or a range without width.
    """

    support: Tensor

    def __init__(self, atoms: int = 51, low: float = -10.0, high: float = 10.0):
        super().__init__()
        if atoms < 2:
            raise ValueError(f"atoms is {atoms}; expected at least 2")
        if not low < high:
            raise ValueError(f"the range of values is {low} to {high}; expected the smaller one first")
        self.numbers, self.low, self.high = atoms, float(low), float(high)
        self.spacing = (self.high - self.low) / (atoms - 1)
        self.register_buffer("support", torch.linspace(low, high, atoms, dtype=torch.float64), persistent=False)
        self.support = self.support.to(torch.get_default_dtype())

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(dim=-1) @ self.support

    @torch.no_grad()
    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        """Return m_i = Σ_j [1 − |clip(r + γ z_j) − z_i| / Δz]₀¹ p_j, as probabilities."""
        probabilities = following.softmax(dim=-1)
        returns = rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * self.support
        places = ((returns - self.low) / self.spacing).clamp_(0.0, self.numbers - 1)
        below = places.floor().clamp_(max=self.numbers - 2)  # a return on an atom gives the one above it nothing
        above = (places - below) * probabilities
        index = below.long()
        mass = torch.zeros_like(probabilities).scatter_add_(-1, index, probabilities - above)
        return mass.scatter_add_(-1, index + 1, above)

    def losses(self, chosen: Tensor, target: Tensor) -> Tensor:
        return -(target * chosen.log_softmax(dim=-1)).sum(dim=-1)

    def judge(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> Judged:
        log_probabilities = chosen.log_softmax(dim=-1)
        losses = (target * log_probabilities).sum(dim=-1).neg_()
        return Judged(losses, losses + torch.xlogy(target, target).sum(dim=-1), log_probabilities.exp() - target)


class Quantiles(ValueHead):
    """The quantiles of the return at (i − ½)/N (QR-DQN; Dabney et al. 2018, arXiv:1710.10044).

    The loss is Σ_i mean_j |τ_i − 1{u < 0}|·L_κ(u)/κ of all pairs u = target_j − prediction_i, L_κ Huber's; it serves as
    the error, too.

    Args:
        quantiles: N.
        kappa: κ, above 0.

    Raises:
        ValueError: For numbers that are not.
    """

    levels: Tensor

    def __init__(self, quantiles: int = 200, kappa: float = 1.0):
        super().__init__()
        if quantiles < 2:
            raise ValueError(f"atoms is {quantiles}; expected at least 2")
        if not kappa > 0:
            raise ValueError(f"kappa is {kappa}; expected a number above 0")
        self.numbers, self.kappa = quantiles, float(kappa)
        self.register_buffer("levels", (torch.arange(quantiles) + 0.5) / quantiles, persistent=False)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.mean(dim=-1)

    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        return rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * following

    def losses(self, chosen: Tensor, target: Tensor) -> Tensor:
        pairs = target.unsqueeze(1) - chosen.unsqueeze(2)  # (n, predictions, targets)
        weights = (self.levels.unsqueeze(-1) - (pairs.detach() < 0).to(pairs.dtype)).abs()
        return (weights * Huber(self.kappa).values(pairs)).mean(dim=2).sum(dim=1) / self.kappa

    def judge(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> Judged:
        """Return what the base class does, from sums over sorted targets: N log N numbers a row, not N² pairs."""
        kappa, many = self.kappa, target.shape[-1]
        target, _ = target.sort(dim=-1)
        bounds = torch.cat([chosen - kappa, chosen, chosen + kappa], dim=-1)
        ends = torch.searchsorted(target, bounds)
        exact = target.double()
        zero = exact.new_zeros(len(exact), 1)
        sums = torch.cat([zero, exact.cumsum(dim=-1)], dim=-1).gather(-1, ends).chunk(3, dim=-1)
        squares = torch.cat([zero, exact.square().cumsum(dim=-1)], dim=-1).gather(-1, ends).chunk(3, dim=-1)
        (low, at, high), theta = ends.double().chunk(3, dim=-1), chosen.double()
        total = exact.sum(dim=-1, keepdim=True)

        # Sums of clip(u) and of L(u), over targets below the prediction and above it.
        moments = [(sums[i + 1] - sums[i], squares[i + 1] - squares[i], n) for i, n in ((0, at - low), (1, high - at))]
        below, above = (first - theta * n for first, _, n in moments)
        curved = [0.5 * second - theta * (first - 0.5 * theta * n) for first, second, n in moments]
        under = curved[0] + kappa * (theta * low - sums[0] - 0.5 * kappa * low)
        over = curved[1] + kappa * (total - sums[2] - (many - high) * (theta + 0.5 * kappa))
        level = self.levels.double()
        losses = ((1.0 - level) * under + level * over).sum(dim=-1) / (many * kappa)
        slopes = (1.0 - level) * (below - kappa * low) + level * (above + kappa * (many - high))
        losses = losses.clamp_(min=0.0).to(chosen.dtype)
        return Judged(losses, losses, (slopes / (-many * kappa)).to(chosen.dtype))
