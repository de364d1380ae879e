"""The meaning of a value network's outputs: a mean, a distribution over atoms, or quantiles of returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from interreplay.learning.losses import CriticLoss, SortedQuantileHuber, build_loss


class HeadLoss(NamedTuple):
    """The losses and errors of predictions.

    Attributes:
        losses: ``(n,)``, differentiable.
        errors: ``(n,)``; their magnitudes serve as priorities.
    """

    losses: Tensor
    errors: Tensor


class ValueHead(nn.Module, ABC):
    """The interpretation of N outputs per action.

    Attributes:
        numbers: Outputs per action N.
    """

    numbers: int

    @abstractmethod
    def values(self, outputs: Tensor) -> Tensor:
        """Return expected returns ``(...)`` of outputs ``(..., N)``."""

    @abstractmethod
    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        """Return the target of `compare`, ``(n, N)`` without a gradient.

        It follows from the outputs ``(n, N)`` for the next observation and the next action, and from rewards and
        discounts ``(n,)``.
        """

    @abstractmethod
    def compare(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> HeadLoss:
        """Return the losses and errors of predictions.

        Args:
            chosen: Outputs for the actions taken, ``(n·m, N)``, the m views of a row one after the other.
            target: ``(n·m, N)``.
            m: Number of views per row.
            loss: Loss defined by the rows, which `Mean` uses instead of its own.
        """


class Mean(ValueHead):
    """The expected return alone (Mnih et al. 2015, Nature 518). Errors are TD errors, prediction minus target.

    Args:
        huber_delta: Absolute error above which the loss is linear; None for the squared error.
    """

    numbers = 1

    def __init__(self, huber_delta: float | None = 1.0):
        super().__init__()
        self.huber_delta = huber_delta
        self.loss = build_loss(huber_delta, None)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.squeeze(-1)

    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        return torch.addcmul(rewards, discounts, following.squeeze(-1)).unsqueeze(-1)

    def compare(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> HeadLoss:
        errors = (chosen - target).squeeze(-1)
        if loss is None:
            return HeadLoss(self.loss.values(errors), errors.detach())
        views = errors.view(-1, m).T  # a loss takes errors ``(m, n)``
        return HeadLoss(loss.or_else(self.loss).values(views).T.reshape(-1), errors.detach())


class Categorical(ValueHead):
    """Probabilities of N returns evenly spaced over a range (C51; Bellemare et al. 2017, arXiv:1707.06887).

    Outputs are logits. The loss is the cross entropy; errors are KL(target ‖ prediction), which is 0 at the optimum.

    Args:
        atoms: Number of atoms N, at least 2.
        low: Smallest return.
        high: Largest return.
    """

    support: Tensor

    def __init__(self, atoms: int = 51, low: float = -10.0, high: float = 10.0):
        super().__init__()
        self.numbers = atoms
        self.low = float(low)
        self.high = float(high)
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
        below = places.floor().clamp_(max=self.numbers - 2)  # a return equal to an atom adds nothing to the next atom
        above = (places - below) * probabilities
        index = below.long()
        mass = torch.zeros_like(probabilities).scatter_add_(-1, index, probabilities - above)
        return mass.scatter_add_(-1, index + 1, above)

    def compare(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> HeadLoss:
        losses = -(target * chosen.log_softmax(dim=-1)).sum(dim=-1)
        return HeadLoss(losses, losses.detach() + torch.xlogy(target, target).sum(dim=-1))


class Quantiles(ValueHead):
    """The quantiles of the return at (i − ½)/N (QR-DQN; Dabney et al. 2018, arXiv:1710.10044).

    The loss is Σ_i mean_j |τ_i − 1{u < 0}|·L_κ(u)/κ of all pairs u = target_j − prediction_i, L_κ Huber's; it serves as
    the error, too.

    Args:
        quantiles: Number of quantiles N.
        kappa: κ, above 0.
    """

    levels: Tensor

    def __init__(self, quantiles: int = 200, kappa: float = 1.0):
        super().__init__()
        self.numbers = quantiles
        self.kappa = float(kappa)
        self.register_buffer("levels", (torch.arange(quantiles) + 0.5) / quantiles, persistent=False)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.mean(dim=-1)

    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        return rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * following

    def compare(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> HeadLoss:
        losses = SortedQuantileHuber.apply(chosen, target, self.levels, self.kappa)
        return HeadLoss(losses, losses.detach())
