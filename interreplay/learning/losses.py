"""Losses of the critics as functions of TD errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn


class CriticLoss(ABC):
    """A loss of TD errors δ ``(m, n)`` of m critics on n rows."""

    @abstractmethod
    def values(self, errors: Tensor) -> Tensor:
        """Return the loss of each error, ``(m, n)``, differentiable."""

    def of_rows(self, which: slice | Tensor) -> CriticLoss:
        """Return the loss of a batch of some of the rows, given by a slice or a mask ``(n,)``."""
        return self

    def or_else(self, own: CriticLoss) -> CriticLoss:
        """Return this loss with the algorithm's loss for rows without one."""
        return self


@dataclass(frozen=True)
class Squared(CriticLoss):
    """½δ²."""

    def values(self, errors: Tensor) -> Tensor:
        return 0.5 * errors.square()


@dataclass(frozen=True)
class Huber(CriticLoss):
    """½δ² where |δ| ≤ d, else d·(|δ| − ½d) (Huber 1964).

    Attributes:
        delta: d > 0.
    """

    delta: float = 1.0

    def values(self, errors: Tensor) -> Tensor:
        return nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=self.delta)


@dataclass(frozen=True)
class PAL(CriticLoss):
    """Prioritized approximation loss: of uniform rows, the gradient that LAP has in expectation.

    ½δ² where |δ| < 1, else |δ|^(1 + α) / (1 + α), all divided by λ, the mean over the rows of max(|δ|, 1)^α with |δ|
    the largest of a row's errors; λ has no gradient (Fujimoto et al. 2020, arXiv:2007.06049). With one critic the
    gradient is exactly that of Huber's loss on rows drawn with P ∝ max(|δ|, 1)^α.

    Attributes:
        alpha: α, 0 to 1; 0 has the gradient of Huber's loss with d = 1.
    """

    alpha: float = 0.4

    def values(self, errors: Tensor) -> Tensor:
        size = errors.abs()
        beyond = size.clamp(min=1.0) ** (1.0 + self.alpha) / (1.0 + self.alpha)
        return torch.where(size < 1.0, 0.5 * errors.square(), beyond) / self._mean_priority(errors)

    def _mean_priority(self, errors: Tensor) -> Tensor:
        return (errors.detach().abs().amax(dim=0).clamp(min=1.0) ** self.alpha).mean()


@dataclass(frozen=True)
class ByRows(CriticLoss):
    """A different loss for each run of rows, as if each run were a batch.

    Attributes:
        parts: Number of rows and their loss, from the first row to the last; None for the algorithm's own.
    """

    parts: tuple[tuple[int, CriticLoss | None], ...]

    def values(self, errors: Tensor) -> Tensor:
        return torch.cat([loss.values(rows) for loss, rows in self._split(errors)], dim=-1)

    def of_rows(self, which: slice | Tensor) -> CriticLoss:
        counts = [count for count, _ in self.parts]
        chosen = torch.zeros(sum(counts), dtype=torch.bool)
        chosen[which.cpu() if isinstance(which, Tensor) else which] = True
        parts = []
        for run, (_, loss) in zip(chosen.split(counts), self.parts, strict=True):
            if loss is not None:
                loss = loss.of_rows(run)
            parts.append((int(run.sum()), loss))
        return ByRows(tuple(parts))

    def or_else(self, own: CriticLoss) -> CriticLoss:
        return ByRows(tuple((count, own if loss is None else loss.or_else(own)) for count, loss in self.parts))

    def _split(self, errors: Tensor) -> Iterator[tuple[CriticLoss, Tensor]]:
        split = errors.split([count for count, _ in self.parts], dim=-1)
        for (count, loss), rows in zip(self.parts, split, strict=True):
            if count:
                assert loss is not None, "see or_else"
                yield loss, rows


def loss_of(huber_delta: float | None, pal_alpha: float | None) -> CriticLoss:
    """Return the loss of two settings, each of which may be None; raises as `check_loss`."""
    check_loss(huber_delta, pal_alpha)
    if pal_alpha is not None:
        return PAL(pal_alpha)
    return Squared() if huber_delta is None else Huber(huber_delta)


def chosen_losses(values: Mapping[str, Any], settings: type) -> tuple[float | None, float | None]:
    """Return `huber_delta` and `pal_alpha` where they differ from the algorithm's defaults, else None.

    Args:
        values: Settings by name.
        settings: Dataclass of the algorithm, whose fields state defaults.
    """
    own = {found.name: found.default for found in fields(settings)}
    asked = {name: value for name, value in values.items() if name in own and value != own[name]}
    return asked.get("huber_delta"), asked.get("pal_alpha")


def check_loss(huber_delta: float | None, pal_alpha: float | None, brought_by: str | None = None) -> None:
    """Reject settings of the critics' loss that contradict each other or the replay method.

    Args:
        huber_delta: d of `Huber`, or None.
        pal_alpha: α of `PAL`, or None.
        brought_by: Name of the replay method that defines the loss of its rows, if any.

    Raises:
        ValueError: The settings and what is accepted.
    """
    given = {"huber_delta": huber_delta, "pal_alpha": pal_alpha}
    named = [f"{name} is {value}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)}; expected one of them, or none")
    if named and brought_by is not None:
        raise ValueError(f"{named[0]}; expected none, for rows of {brought_by} bring the critics' loss along")
