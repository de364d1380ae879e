"""What the updates of all algorithms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from interreplay.transitions import Observation, Transitions, observation_parts


def flat_observation(obs: Observation) -> Tensor:
    """Observations as ``(n, d)`` float32, named parts side by side in the order of their names."""
    parts = observation_parts(obs)
    flat = [parts[name].flatten(1).float() for name in sorted(parts)]
    return flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Adam that steps all parameters in one fused kernel."""
    return torch.optim.Adam(parameters, lr=lr, fused=True)


def step(
    optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter], grad_clip: float | None
) -> None:
    """One gradient step on `parameters` alone, whatever else the loss depends on.

    Args:
        optimizer: Of these parameters.
        loss: Scalar.
        parameters: What is stepped.
        grad_clip: Largest norm of all gradients together, or None.
    """
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    if grad_clip is not None:
        nn.utils.clip_grad_norm_(parameters, grad_clip)
    optimizer.step()


class Update(ABC):
    """One gradient update of an algorithm.

    Attributes:
        optimizers: By name; their state belongs into checkpoints.
        metrics: Names of the numbers that `apply` reports, in order.
    """

    optimizers: dict[str, torch.optim.Optimizer]
    metrics: tuple[str, ...]

    @abstractmethod
    def apply(self, rows: Transitions, weights: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Learn from a batch.

        Args:
            rows: n transitions with ``discounts``.
            weights: Importance weights ``(n,)`` for the critics' loss.
            rng: Source of the policy's noise, on the device of the rows.

        Returns:
            TD errors ``(n,)``, the mean over the critics, and the metrics as one tensor, both detached.
        """
