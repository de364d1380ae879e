"""Distances between vectors, such as states or outputs of policies."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.learning.networks.distributions import Normal

Distance = Callable[[Tensor, Tensor], Tensor]
"""Maps rows ``(n, d)`` and ``(n, d)`` or ``(1, d)`` to distances ``(n,)``, 0 for equal rows."""


def lp_norm(one: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """Return the Lᵖ norms ``(n,)`` of the differences of rows ``(n, d)`` and ``(n, d)`` or ``(1, d)``."""
    return torch.linalg.vector_norm(one - other, ord=p, dim=-1)


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Return 1 − cos: 0 for the same direction, 2 for opposite directions, and 1 if a vector is zero."""
    lengths = torch.linalg.vector_norm(one, dim=-1) * torch.linalg.vector_norm(other, dim=-1)
    products = one @ other[0] if len(other) == 1 else (one * other).sum(dim=-1)
    return 1.0 - products / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)


def kl(one: Tensor, other: Tensor) -> Tensor:
    """Return KL(one ‖ other) of Gaussians with independent dimensions, rows [mean; log std]."""
    if one.shape[-1] % 2:
        raise ValueError(f"a distribution has {one.shape[-1]} numbers; expected an even number: means, then log stds")
    return Normal(one.shape[-1] // 2).kl(one, other)


def distance_by_name(name: str, norm: float, *accepted: str) -> Distance:
    """Return a distance of the `accepted` names ``"ln"``, ``"cosine"`` and ``"kl"``; `norm` is p of ``"ln"``."""
    if name not in accepted:
        raise ValueError(f"distance is {name!r}; expected one of {', '.join(accepted)}")
    if norm != math.inf:  # the maximum norm
        check_number("norm", norm, 0, above_low=True)
    if name == "ln":
        return functools.partial(lp_norm, p=float(norm))
    return {"cosine": cosine, "kl": kl}[name]
