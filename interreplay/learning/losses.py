"""Losses of the critics as functions of TD errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from interreplay.environments.own_modules import is_users_class, make_object
from interreplay.errors import check_number, describe_error
from interreplay.learning.setting_fields import defaults


class CriticLoss(ABC):
    """A loss of TD errors δ ``(m, n)`` of m critics on n rows."""

    @abstractmethod
    def values(self, errors: Tensor) -> Tensor:
        """Return the loss of each error, ``(m, n)``, differentiable."""

    def select_rows(self, which: slice | Tensor) -> CriticLoss:
        """Return the loss of a batch of some of the rows, given by a slice or a mask ``(n,)``."""
        return self

    def or_else(self, own: CriticLoss) -> CriticLoss:
        """Return this loss with the algorithm's loss for rows without one."""
        return self


@dataclass(frozen=True)
class Squared(CriticLoss):
    """Squared loss ½δ²."""

    def values(self, errors: Tensor) -> Tensor:
        return 0.5 * errors.square()


@dataclass(frozen=True)
class Huber(CriticLoss):
    """½δ² where |δ| ≤ d, else d·(|δ| − ½d) (Huber 1964).

    Attributes:
        delta: d > 0.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        check_number("delta", self.delta, 0, above_low=True)

    def values(self, errors: Tensor) -> Tensor:
        return nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=self.delta)


@dataclass(frozen=True)
class PAL(CriticLoss):
    """Prioritized approximation loss: on uniformly drawn rows, its expected gradient equals LAP's.

    ½δ² where |δ| < 1, else |δ|^(1 + α) / (1 + α), all divided by λ, the mean over the rows of max(|δ|, 1)^α with |δ|
    the largest of a row's errors; λ has no gradient (Fujimoto et al. 2020, arXiv:2007.06049). With one critic the
    gradient is exactly that of the Huber loss on rows drawn with P ∝ max(|δ|, 1)^α.

    Attributes:
        alpha: α, 0 to 1; 0 has the gradient of the Huber loss with d = 1.
    """

    alpha: float = 0.4

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0, 1)

    def values(self, errors: Tensor) -> Tensor:
        size = errors.abs()
        beyond = size.clamp(min=1.0) ** (1.0 + self.alpha) / (1.0 + self.alpha)
        priorities = size.detach().amax(dim=0).clamp(min=1.0) ** self.alpha
        return torch.where(size < 1.0, 0.5 * errors.square(), beyond) / priorities.mean()


@dataclass(frozen=True)
class RowwiseLoss(CriticLoss):
    """A different loss for each block of consecutive rows, as if each block were a batch.

    Attributes:
        parts: Number of rows and loss of each block, in order; the loss is None for the algorithm's own loss.
    """

    parts: tuple[tuple[int, CriticLoss | None], ...]

    def values(self, errors: Tensor) -> Tensor:
        values = []
        for (count, loss), rows in zip(self.parts, errors.split(self._counts(), dim=-1), strict=True):
            if count:
                assert loss is not None, "see or_else"
                values.append(loss.values(rows))
        return torch.cat(values, dim=-1)

    def _counts(self) -> list[int]:
        return [count for count, _ in self.parts]

    def select_rows(self, which: slice | Tensor) -> CriticLoss:
        counts = self._counts()
        if isinstance(which, Tensor):
            which = which.cpu()
        chosen = torch.zeros(sum(counts), dtype=torch.bool)
        chosen[which] = True
        parts = []
        for block, (_, loss) in zip(chosen.split(counts), self.parts, strict=True):
            if loss is not None:
                loss = loss.select_rows(block)
            parts.append((int(block.sum()), loss))
        return RowwiseLoss(tuple(parts))

    def or_else(self, own: CriticLoss) -> CriticLoss:
        parts: list[tuple[int, CriticLoss | None]] = []
        for count, loss in self.parts:
            if loss is not None:
                parts.append((count, loss.or_else(own)))
            else:
                parts.append((count, own))
        return RowwiseLoss(tuple(parts))


LOSSES: dict[str, type[CriticLoss]] = {"Squared": Squared, "Huber": Huber, "PAL": PAL}
"""Losses by the names that the setting ``critic_loss`` accepts."""


def make_loss(choice: CriticLoss | str | Mapping[str, Any]) -> CriticLoss:
    """Return a loss, or build one of `LOSSES` or of a user from its name or a mapping.

    Raises:
        ValueError: The loss or an argument is unknown, or a user's loss returns invalid values.
    """
    if not isinstance(choice, CriticLoss):
        return make_loss(make_object(choice, LOSSES, CriticLoss, "critic_loss"))
    if is_users_class(type(choice)):
        check_user_loss(choice)
    return choice


def check_user_loss(loss: CriticLoss) -> None:
    """Check the values of a user's loss for an example of errors.

    Raises:
        ValueError: The loss raises an error, or its values have another type or shape or no gradient.
    """
    name = f"critic_loss {type(loss).__name__}"
    with torch.enable_grad():
        errors = torch.linspace(-1.0, 2.0, 6).reshape(2, 3).requires_grad_()
        try:
            values = loss.values(errors)
        except Exception as error:
            raise ValueError(f"{name} failed for errors (2, 3): {describe_error(error)}") from error
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} returns a {type(values).__name__}; expected a tensor (m, n), one loss per error")
    if values.shape != errors.shape:
        raise ValueError(f"{name} returns shape {tuple(values.shape)} for errors (2, 3); expected one loss per error")
    if not values.requires_grad:
        raise ValueError(f"{name} returns values without a gradient; expected a differentiable function of the errors")


def build_loss(huber_delta: float | None, pal_alpha: float | None, critic_loss: Any = None) -> CriticLoss:
    """Return the loss of three settings, which can be None; raises as `check_loss` and `make_loss`."""
    check_loss(huber_delta, pal_alpha, critic_loss)
    if critic_loss is not None:
        return make_loss(critic_loss)
    if pal_alpha is not None:
        return PAL(pal_alpha)
    if huber_delta is not None:
        return Huber(huber_delta)
    return Squared()


def find_chosen_losses(values: Mapping[str, Any], settings: type) -> dict[str, Any]:
    """Return the settings of the critics' loss that differ from the defaults in the dataclass `settings`."""
    own = defaults(settings)
    chosen: dict[str, Any] = {}
    for name in ("huber_delta", "pal_alpha", "critic_loss"):
        if name in own and values.get(name) != own[name]:
            chosen[name] = values.get(name)
    return chosen


def check_loss(
    huber_delta: float | None = None,
    pal_alpha: float | None = None,
    critic_loss: Any = None,
    method: str | None = None,
) -> None:
    """Reject settings of the critics' loss that contradict each other or the replay method.

    `method` is the name of a replay method that defines the loss of its rows.

    Raises:
        ValueError: The settings contradict each other or the replay method.
    """
    given = {"huber_delta": huber_delta, "pal_alpha": pal_alpha, "critic_loss": critic_loss}
    named = [f"{name} is {value}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)}; expected one of them, or none")
    if named and method is not None:
        raise ValueError(f"{named[0]}; expected none, because rows of {method} define the critics' loss")


class SortedQuantileHuber(torch.autograd.Function):
    """`sorted_quantile_huber` with a hand-written backward pass."""

    @staticmethod
    def forward(ctx: Any, chosen: Tensor, target: Tensor, levels: Tensor, kappa: float) -> Tensor:
        """Return losses ``(n,)``; arguments as in `sorted_quantile_huber`."""
        losses, slopes = sorted_quantile_huber(chosen, target, levels, kappa)
        ctx.save_for_backward(slopes)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return slopes * gradients.unsqueeze(-1), None, None, None


def sorted_quantile_huber(chosen: Tensor, target: Tensor, levels: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """Return the quantile Huber loss from sums over sorted targets: N log N numbers per row instead of N² pairs.

    Args:
        chosen: Predicted quantiles ``(n, N)``.
        target: ``(n, K)``, without a gradient.
        levels: τ ``(N,)``, or ``(n, N)``.
        kappa: κ.

    Returns:
        Losses ``(n,)`` and their derivatives ``(n, N)`` with respect to the predictions.
    """
    many = target.shape[-1]
    target, _ = target.contiguous().sort(dim=-1)
    bounds = torch.cat([chosen - kappa, chosen, chosen + kappa], dim=-1)
    ends = torch.searchsorted(target, bounds)
    exact = target.double()
    zero = exact.new_zeros(len(exact), 1)
    sums = torch.cat([zero, exact.cumsum(dim=-1)], dim=-1).gather(-1, ends).chunk(3, dim=-1)
    squares = torch.cat([zero, exact.square().cumsum(dim=-1)], dim=-1).gather(-1, ends).chunk(3, dim=-1)
    low, at, high = ends.double().chunk(3, dim=-1)
    theta = chosen.double()
    total = exact.sum(dim=-1, keepdim=True)

    # Sums of clip(u) and of L(u) over targets below the prediction and above it.
    below = sums[1] - sums[0] - theta * (at - low)
    above = sums[2] - sums[1] - theta * (high - at)
    curved_below = 0.5 * (squares[1] - squares[0]) - theta * (sums[1] - sums[0] - 0.5 * theta * (at - low))
    curved_above = 0.5 * (squares[2] - squares[1]) - theta * (sums[2] - sums[1] - 0.5 * theta * (high - at))
    under = curved_below + kappa * (theta * low - sums[0] - 0.5 * kappa * low)
    over = curved_above + kappa * (total - sums[2] - (many - high) * (theta + 0.5 * kappa))
    level = levels.double()
    losses = ((1.0 - level) * under + level * over).sum(dim=-1) / (many * kappa)
    slopes = (1.0 - level) * (below - kappa * low) + level * (above + kappa * (many - high))
    return losses.clamp(min=0.0).to(chosen.dtype), (slopes / (-many * kappa)).to(chosen.dtype)
