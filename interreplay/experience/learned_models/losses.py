"""What an ensemble minimizes: the loss of every member by itself, with its gradients written out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from interreplay.experience.learned_models.networks import Networks, Pass, Workspace

BOUND_WEIGHT = 0.01
"""Weight of the spread of the bounds in the loss."""


class Learned(NamedTuple):
    """A loss and its gradients.

    Attributes:
        losses: Of each member ``(m,)``, without weight decay.
        gradients: In the order of `Networks.tensors`.
    """

    losses: Tensor
    gradients: list[Tensor]


def log_variances(raw: Tensor, highest: Tensor, lowest: Tensor) -> Tensor:
    """Return log variances ``(m, n, d)`` softly clamped between bounds ``(m, 1, d)`` (Chua et al. 2018).

    h − softplus(h − x) is below h for every x, and smooth; the lower bound likewise.
    """
    below = highest - functional.softplus(highest - raw)
    return lowest + functional.softplus(below - lowest)


def gaussian(done: Pass, targets: Tensor) -> Learned:
    """Return the negative log-likelihood of targets ``(m, n, d)`` under [mean; log variance], as MBPO has it.

    Mean over rows and numbers of (μ − y)²·e^(−v) + v, and .01 times the sum of the largest less that of the smallest
    log variances (Janner et al. 2019, arXiv:1906.08253).
    """
    highest, lowest = done.networks.bounds
    mean, raw = done.outputs.chunk(2, dim=-1)
    below = highest - functional.softplus(highest - raw)
    values = lowest + functional.softplus(below - lowest)
    missed = mean - targets
    precise = missed * torch.exp(-values)
    squared = missed * precise
    losses = (squared + values).mean(dim=(1, 2)) + BOUND_WEIGHT * (highest - lowest).sum(dim=(1, 2))
    share = 1.0 / targets[0].numel()
    of_values = (1.0 - squared) * share
    through_low = of_values * torch.sigmoid(below - lowest)
    of_raw = through_low * torch.sigmoid(highest - raw)
    of_lowest = (of_values - through_low).sum(dim=1, keepdim=True) - BOUND_WEIGHT
    of_highest = (through_low - of_raw).sum(dim=1, keepdim=True) + BOUND_WEIGHT
    of_outputs = torch.cat([precise * (2.0 * share), of_raw], dim=-1)
    return Learned(losses, [*done.backward(of_outputs), of_highest, of_lowest])


def squared(done: Pass, targets: Tensor) -> Learned:
    """Return the mean squared error of the outputs against targets ``(m, n, d)``."""
    missed = done.outputs - targets
    return Learned(missed.square().mean(dim=(1, 2)), done.backward(missed * (2.0 / targets[0].numel())))


def learn(
    networks: Networks,
    rows: Tensor,
    targets: Tensor,
    dropped: list[Tensor | None] | None = None,
    memory: Workspace | None = None,
) -> Learned:
    """Return the losses of networks for rows ``(m, n, in)``, each with its own, and their gradients.

    With `memory` the gradients lie there, until the next pass in it.

    Networks with bounds predict log variances beside means, others means alone.
    """
    done = networks.forward(rows, dropped, memory)
    return gaussian(done, targets) if networks.bounds else squared(done, targets)
