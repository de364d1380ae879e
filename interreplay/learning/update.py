"""What the updates of all algorithms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from interreplay.learning.losses import CriticLoss
from interreplay.learning.normalization import Normalized
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
        factor = (most / (norm + 1e-6)).clamp_(max=1.0)
        if factor.device.type != "cpu" or factor < 1.0:  # to ask elsewhere would wait for the device
            torch._foreach_mul_(gradients, factor)
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
        actor_weights: Further weights ``(n,)`` for the losses of the actor and the temperature, or None for equal ones.
        critic_loss: The critics' loss of these rows, or None for the algorithm's own.
        targets: q_t ``(n,)`` under the networks of now, where they have been computed; None for not.
    """

    @property
    def transitions(self) -> Transitions: ...
    @property
    def weights(self) -> Tensor: ...
    @property
    def row_weights(self) -> Tensor | None: ...
    @property
    def actor_weights(self) -> Tensor | None: ...
    @property
    def critic_loss(self) -> CriticLoss | None: ...
    @property
    def targets(self) -> Tensor | None: ...


@dataclass(frozen=True)
class Batch:
    """Rows to learn from that come from no replay buffer; attributes as in `SampleLike`."""

    transitions: Transitions
    weights: Tensor
    row_weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None
    targets: Tensor | None = None


def actor_row_weights(batch: SampleLike) -> Tensor | None:
    """Return the weights ``(n,)`` of the rows for the losses of the actor and the temperature, None for equal ones."""
    if batch.actor_weights is None or batch.row_weights is None:
        return batch.row_weights if batch.actor_weights is None else batch.actor_weights
    return batch.actor_weights * batch.row_weights


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What an update found out.

    Attributes:
        errors: ``(n,)``, detached; their magnitudes serve as priorities. Of critics the mean of their TD errors.
        metrics: The numbers that `Update.metrics` names, one tensor, detached.
        scores: Columns ``(n,)`` by name, detached: those of `Update.scores_wanted`.
    """

    errors: Tensor
    metrics: Tensor
    scores: Mapping[str, Tensor] = field(default_factory=dict)


class Rule(ABC):  # noqa: B024 - what it updates from is its children's
    """What the updates of all algorithms have in common, whatever they learn from.

    Attributes:
        optimizers: By name; their state belongs into checkpoints.
        metrics: Names of the numbers that updates report, in order.
    """

    optimizers: dict[str, torch.optim.Optimizer]
    metrics: tuple[str, ...]

    def state_dict(self) -> dict[str, Any]:
        """Return what the next update depends on beside networks, optimizers and `rng`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many have no state
        """Continue from a state."""


class Update(Rule):
    """One gradient update of an algorithm that learns from rows.

    Attributes:
        offers: Names in `interreplay.learning.offers` of what it can do for a replay method.
        scores_wanted: Names of the scores that it computes with every update; whoever wants some sets it.
    """

    offers: frozenset[str] = frozenset()
    scores_wanted: frozenset[str] = frozenset()

    @abstractmethod
    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        """Learn from a batch.

        Args:
            batch: n rows and their weights.
            rng: Source of the policy's noise, on the device of the rows.
        """

    def score(self, rows: Transitions, names: Collection[str], rng: torch.Generator) -> dict[str, Tensor]:
        """Return scores ``(n,)`` of rows by their names, some of `offers`, by forward passes alone.

        Args:
            rows: n rows with ``discounts``.
            names: Of the scores.
            rng: Source of the policy's noise, on the device of the rows.
        """
        raise NotImplementedError(f"{type(self).__name__} scores no rows")
