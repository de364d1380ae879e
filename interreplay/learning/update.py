"""What the updates of all algorithms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.optimizer import FastAdam
from interreplay.transitions import Transitions


def normal(like: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal noise of the shape, dtype and device of `like`."""
    return torch.randn(like.shape, generator=rng, device=like.device, dtype=like.dtype)


def views(rows: Transitions, encoder: nn.Module) -> tuple[Tensor, Tensor, int]:
    """Observations and next observations to predict from, both ``(n·m, d)``, and m, the views of each row.

    With one view these are the encoded ones of the rows, next ones without a gradient. State augmentation puts more
    into ``extras["views_obs"]`` and ``extras["views_next_obs"]``, ``(n, m, ...)``, numbers that need no encoder.
    """
    if "views_obs" not in rows.extras:
        with torch.no_grad():
            next_obs = encoder(rows.next_obs)
        return encoder(rows.obs), next_obs, 1
    obs, next_obs = rows.extras["views_obs"], rows.extras["views_next_obs"]
    return obs.flatten(0, 1).flatten(1).float(), next_obs.flatten(0, 1).flatten(1).float(), obs.shape[1]


def over_views(values: Tensor, m: int) -> Tensor:
    """Means ``(..., n)`` of values ``(..., n·m)`` over the m views of each row."""
    return values if m == 1 else values.unflatten(-1, (-1, m)).mean(dim=-1)


def to_views(gradients: Tensor, m: int) -> Tensor:
    """Gradients ``(..., n·m)`` by the values whose means `over_views` have gradients ``(..., n)``."""
    return gradients if m == 1 else gradients.repeat_interleave(m, dim=-1) / m


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Mean of values ``(..., n)`` over the rows, each times its weight ``(n,)`` where there are weights.

    Raises:
        ValueError: When the weights are not one per row, which would broadcast.
    """
    if weights is None:
        return values.mean(dim=-1)
    if weights.shape != values.shape[-1:]:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; expected {tuple(values.shape[-1:])}")
    return (values * weights).mean(dim=-1)


def half_squares(errors: Tensor, huber_delta: float | None) -> Tensor:
    """½e² of errors of any shape; with `huber_delta` d Huber's loss: the same for |e| ≤ d, d·(|e| − ½d) beyond."""
    if huber_delta is None:
        return 0.5 * errors.square()
    return nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=huber_delta)


def shares(like: Tensor, row_weights: Tensor | None) -> Tensor | float:
    """The gradient of `weighted_mean` of values like ``(n,)``: v/n, and 1/n where there are no weights.

    Raises:
        ValueError: As `weighted_mean`.
    """
    if row_weights is None:
        return 1.0 / len(like)
    if row_weights.shape != like.shape:
        raise ValueError(f"weights have shape {tuple(row_weights.shape)}; expected {tuple(like.shape)}")
    return row_weights / len(like)


class Update(ABC):
    """One gradient update of an algorithm.

    Attributes:
        optimizers: By name; their state belongs into checkpoints.
        metrics: Names of the numbers that `apply` reports, in order.
    """

    optimizers: dict[str, FastAdam]
    metrics: tuple[str, ...]

    @abstractmethod
    def apply(
        self, rows: Transitions, weights: Tensor, rng: torch.Generator, row_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Learn from a batch.

        Args:
            rows: n transitions with ``discounts``.
            weights: Importance weights ``(n,)`` for the critics' loss.
            rng: Source of the policy's noise, on the device of the rows.
            row_weights: Weights ``(n,)`` with mean 1 for every loss, or None for equal ones.

        Returns:
            TD errors ``(n,)``, the mean over the critics, and the metrics as one tensor, both detached.
        """

    def state_dict(self) -> dict[str, Any]:
        """What the next update depends on beside networks, optimisers and `rng`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many have no state
        """Continue from a state."""
