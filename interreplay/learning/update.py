"""What the updates of all algorithms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from interreplay.learning.encoders import Normalized
from interreplay.transitions import Transitions


def normal(like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw standard normal noise of the shape, dtype and device of `like`."""
    return torch.randn(like.shape, generator=rng, device=like.device, dtype=like.dtype)


def views(rows: Transitions, encoder: nn.Module) -> tuple[Tensor, Tensor, int]:
    """Return observations and next observations to predict from, both ``(n·m, d)``, and m, the views of each row.

    With one view these are the encoded ones of the rows, next ones without a gradient. State augmentation puts more
    into ``extras["views_obs"]`` and ``extras["views_next_obs"]``, ``(n, m, ...)``, numbers that are normalized at most.
    """
    with torch.no_grad():
        next_obs, _ = view_tensors(rows, encoder, "next_obs")
    obs, m = view_tensors(rows, encoder, "obs")
    return obs, next_obs, m


def view_tensors(rows: Transitions, encoder: nn.Module, name: str) -> tuple[Tensor, int]:
    """Return ``obs`` or ``next_obs`` of the rows as `views` does, alone ``(n·m, d)``, and m; by the encoder's gradient.

    Args:
        rows: n of them.
        encoder: Of their observations.
        name: "obs" or "next_obs".
    """
    if "views_obs" not in rows.extras:
        return encoder(getattr(rows, name)), 1
    many = rows.extras[f"views_{name}"]
    wide = many.flatten(0, 1).flatten(1).float()
    return (encoder.normalize(wide) if isinstance(encoder, Normalized) else wide), many.shape[1]


def repeat_for_views(values: Tensor, m: int) -> Tensor:
    """Return values ``(n·m, ...)`` of ``(n, ...)``, each row m times in a row."""
    return values if m == 1 else values.repeat_interleave(m, dim=0)


def mean_over_views(values: Tensor, m: int) -> Tensor:
    """Return means ``(..., n)`` of values ``(..., n·m)`` over the m views of each row."""
    return values if m == 1 else values.unflatten(-1, (-1, m)).mean(dim=-1)


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of values ``(..., n)`` over the rows, each times its weight ``(n,)`` where there are weights.

    Raises:
        ValueError: When the weights are not one per row, which would broadcast.
    """
    if weights is None:
        return values.mean(dim=-1)
    if weights.shape != values.shape[-1:]:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; expected {tuple(values.shape[-1:])}")
    return (values * weights).mean(dim=-1)


def half_squares(errors: Tensor, huber_delta: float | None) -> Tensor:
    """Return ½e² of errors of any shape; with `huber_delta` d Huber's loss: d·(|e| − ½d) where |e| > d."""
    if huber_delta is None:
        return 0.5 * errors.square()
    return nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=huber_delta)


def clip_gradients(parameters: Sequence[Tensor], most: float | None, by: str = "global_norm") -> None:
    """Bound the gradients of one optimizer's parameters, in place.

    Args:
        parameters: Each with a gradient. Those of three dimensions belong to several networks ``(m, in, out)``.
        most: The bound; None for none.
        by: "global_norm" bounds the norm of all of them together, "norm" of each layer of each network by itself,
            "value" each number.
    """
    if most is None:
        return
    if by == "global_norm":
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (most / (norm + 1e-6)).clamp_(max=1.0))
    elif by == "value":
        nn.utils.clip_grad_value_(parameters, most)
    else:
        for gradient in (p.grad for p in parameters if p.grad is not None):
            layers = gradient.flatten(1) if gradient.ndim == 3 else gradient.reshape(1, -1)
            norms = layers.norm(dim=1).view(-1, *[1] * (gradient.ndim - 1)) if gradient.ndim == 3 else layers.norm()
            gradient.mul_((most / (norms + 1e-6)).clamp(max=1.0))


class SampleLike(Protocol):
    """What an update learns from; `interreplay.Sample` is one.

    Attributes:
        transitions: n rows with ``discounts``.
        weights: Importance weights ``(n,)`` for the critics' loss.
        row_weights: Weights ``(n,)`` with mean 1 for every loss, or None for equal ones.
    """

    @property
    def transitions(self) -> Transitions: ...
    @property
    def weights(self) -> Tensor: ...
    @property
    def row_weights(self) -> Tensor | None: ...


@dataclass(frozen=True)
class Batch:
    """Rows to learn from that come from no replay buffer; attributes as in `SampleLike`."""

    transitions: Transitions
    weights: Tensor
    row_weights: Tensor | None = None


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What an update found out.

    Attributes:
        errors: ``(n,)``, detached; their magnitudes serve as priorities. Of critics the mean of their TD errors.
        metrics: The numbers that `Update.metrics` names, one tensor, detached.
    """

    errors: Tensor
    metrics: Tensor


class Update(ABC):
    """One gradient update of an algorithm.

    Attributes:
        optimizers: By name; their state belongs into checkpoints.
        metrics: Names of the numbers that `update` reports, in order.
    """

    optimizers: dict[str, torch.optim.Optimizer]
    metrics: tuple[str, ...]

    @abstractmethod
    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        """Learn from a batch.

        Args:
            batch: n rows and their weights.
            rng: Source of the policy's noise, on the device of the rows.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what the next update depends on beside networks, optimizers and `rng`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many have no state
        """Continue from a state."""
