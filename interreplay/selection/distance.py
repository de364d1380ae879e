"""Distances between what policies make of states."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.argument_checks import check_number

Distance = Callable[[Tensor, Tensor], Tensor]
"""Of rows ``(n, d)`` and ``(n, d)`` or ``(1, d)``, distances ``(n,)``, 0 for equal rows."""


def ln(one: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """Return the Lᵖ norm of the difference."""
    return torch.linalg.vector_norm(one - other, ord=p, dim=-1)


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Return 1 − cos of the angle; 0 for the same direction, 2 for the opposite one; a zero vector is at 1 from all."""
    lengths = torch.linalg.vector_norm(one, dim=-1) * torch.linalg.vector_norm(other, dim=-1)
    products = one @ other[0] if len(other) == 1 else (one * other).sum(dim=-1)
    return 1.0 - products / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)


def kl(one: Tensor, other: Tensor) -> Tensor:
    """Return KL(one ‖ other) of Gaussians with independent dimensions, rows [mean; log std].

    Raises:
        ValueError: When the rows cannot be halved.
    """
    if one.shape[-1] % 2:
        raise ValueError(f"a distribution has {one.shape[-1]} numbers; expected means and as many log stds")
    (mean, log_std), (mean_other, log_other) = one.chunk(2, dim=-1), other.chunk(2, dim=-1)
    ratio = 2.0 * (log_std - log_other)
    shift = (mean - mean_other).square() * (-2.0 * log_other).exp()
    return 0.5 * (ratio.exp() + shift - 1.0 - ratio).sum(dim=-1)


def kl_categorical(one: Tensor, other: Tensor) -> Tensor:
    """Return KL(one ‖ other) of categorical distributions, rows of logits."""
    log_one, log_other = torch.log_softmax(one, dim=-1), torch.log_softmax(other, dim=-1)
    return (log_one.exp() * (log_one - log_other)).sum(dim=-1).clamp(min=0.0)  # rounding may make it negative


def named(name: str, norm: float, *names: str) -> Distance:
    """Return the distance called `name`, one of `names`.

    Args:
        name: ``"ln"``, ``"cosine"`` or ``"kl"``.
        norm: p of ``"ln"``.
        *names: Those that make sense for the caller.

    Raises:
        ValueError: When the name is another, or the norm is not positive.
    """
    if name not in names:
        raise ValueError(f"distance is {name!r}; expected one of {', '.join(names)}")
    if norm != math.inf:  # the maximum norm
        check_number("norm", norm, 0, above_low=True)
    if name == "ln":
        return lambda one, other: ln(one, other, norm)
    return {"cosine": cosine, "kl": kl}[name]
