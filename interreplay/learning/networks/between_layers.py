"""Dropout and layer normalization between a layer and its activation, with a hand-written backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

EPS = 1e-5
"""Added to variances (Ba et al. 2016, arXiv:1607.06450; the value is PyTorch's)."""

Dropped = list[list[Tensor]]
"""Dropped units per network and hidden layer: flat indices into ``(n, width)``, or a mask ``(n, width)``."""


def zero_units(values: Tensor, dropped: Tensor) -> None:
    """Set dropped units of contiguous ``(n, width)`` or ``(m, n, width)`` to 0 in place; see `Dropped`."""
    if dropped.dtype is torch.bool:
        values.masked_fill_(dropped, 0.0)
    else:
        values.view(-1).index_fill_(0, dropped, 0.0)


class Dropout:
    """Draws the hidden units that a forward pass drops (Srivastava et al. 2014, JMLR 15).

    Each unit is dropped independently with probability p. On the processor, a Poisson number of points with mean
    λ = −log(1 − p) per unit is thrown on the units of a layer, each point on a uniformly random unit. The numbers of
    points per unit are then independent and Poisson with mean λ, so a unit is hit with probability 1 − exp(−λ) = p.
    A unit that is hit twice appears twice. This needs one random number per dropped unit instead of one per unit.
    The number of points must be known to the processor, which would wait for a GPU; there a mask is drawn.

    Args:
        p: Probability in (0, 1).
        widths: Widths of the hidden layers of a network.
    """

    def __init__(self, p: float, widths: Sequence[int]):
        self.p = p
        self._widths = tuple(widths)
        self._means: dict[tuple[int, int, torch.device], Tensor] = {}

    def draw(self, networks: int, rows: int, rng: torch.Generator) -> Dropped:
        """Draw the dropped units of one forward pass of `networks` with `rows` rows each."""
        if rng.device.type != "cpu":
            return self.draw_masks(networks, rows, rng)
        depth = len(self._widths)
        sizes = [rows * width for width in self._widths]
        key = (networks, rows, rng.device)
        if key not in self._means:
            means = torch.tensor(sizes * networks, dtype=torch.float64, device=rng.device)
            recent = dict(list(self._means.items())[:7])
            self._means = {key: means.mul_(-math.log1p(-self.p)), **recent}
        counts = torch.poisson(self._means[key], generator=rng).long().tolist()
        if min(sizes) == max(sizes):  # one draw serves all layers
            found = list(torch.randint(sizes[0], (sum(counts),), generator=rng, device=rng.device).split(counts))
        else:
            found = []
            for size, count in zip(sizes * networks, counts, strict=True):
                found.append(torch.randint(size, (count,), generator=rng, device=rng.device))
        return [found[start : start + depth] for start in range(0, len(found), depth)]

    def draw_masks(self, networks: int, rows: int, rng: torch.Generator) -> Dropped:
        """Draw masks with one random number per unit; arguments as in `draw`."""
        layers = []
        for width in self._widths:
            layers.append(torch.rand((networks, rows, width), generator=rng, device=rng.device) < self.p)
        return list(map(list, zip(*layers, strict=True)))


class BetweenLayers:
    """Dropout followed by layer normalization, or either alone, of one hidden layer in one forward pass.

    With kept units h/(1 − p), x̂ = (h − mean h)/σ over a row, outputs γ·x̂ + β and output gradients g, the gradient of h
    is (γg − mean(γg) − x̂·mean(γg·x̂))/σ, and 0 where a unit was dropped. The gradients of γ and β are the sums of g·x̂
    and of g. Before a normalization, the factor 1/(1 − p) only changes ε, so no pass over the units is needed for it.

    Args:
        norm: γ and β ``(width,)`` of one network, or ``(m, 1, width)`` of m networks; None without normalization.
        dropped: The dropped units, flat indices or a mask, or None.
        keep: 1 − p.
    """

    def __init__(self, norm: tuple[Tensor, Tensor] | None, dropped: Tensor | None, keep: float):
        self._norm = norm
        self.dropped = dropped
        self._keep = keep

    def forward(self, values: Tensor) -> Tensor:
        """Return outputs for a layer's values ``(..., n, width)``, which are changed in place."""
        if self.dropped is not None:
            zero_units(values, self.dropped)
        if self._norm is None:
            return values.mul_(1.0 / self._keep)
        scale, shift = self._norm
        eps = EPS
        if self.dropped is not None:
            eps *= self._keep**2
        self._values = values
        width = [values.shape[-1]]
        if scale.ndim == 1:
            outputs, self._mean, self._inverse = torch.native_layer_norm(values, width, scale, shift, eps)
            return outputs
        outputs, self._mean, self._inverse = torch.native_layer_norm(values, width, None, None, eps)
        return torch.addcmul(shift, outputs, scale)

    def rows(self, which: Tensor) -> BetweenLayers:
        """Return the part for rows ``(k,)`` of one network without dropout."""
        part = BetweenLayers(self._norm, None, self._keep)
        part._values = self._values.index_select(0, which)
        part._mean = self._mean.index_select(0, which)
        part._inverse = self._inverse.index_select(0, which)
        return part

    def backward(self, gradient: Tensor, into: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the gradient of a layer's values.

        The gradient of the outputs may be changed in place; `into` receives the gradients of γ and β.
        """
        if self._norm is None:
            gradient = gradient.mul_(1.0 / self._keep)
        else:
            gradient = self._backward_normalization(gradient, *self._norm, into)
        if self.dropped is not None:
            gradient = gradient.contiguous()
            zero_units(gradient, self.dropped)
        return gradient

    def _backward_normalization(
        self, gradient: Tensor, scale: Tensor, shift: Tensor, into: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        kernel = torch.ops.aten.native_layer_norm_backward
        values = self._values
        width = [values.shape[-1]]
        if scale.ndim == 3:  # the kernel takes γ and β of one network only
            if into is not None:
                standardized = (values - self._mean) * self._inverse
                torch.sum(gradient * standardized, dim=-2, keepdim=True, out=into[0])
                torch.sum(gradient, dim=-2, keepdim=True, out=into[1])
            wanted = [True, False, False]
            return kernel(gradient * scale, values, width, self._mean, self._inverse, None, None, wanted)[0]
        wanted = [True, into is not None, into is not None]
        found, of_scale, of_shift = kernel(gradient, values, width, self._mean, self._inverse, scale, shift, wanted)
        if into is not None:
            into[0].copy_(of_scale)
            into[1].copy_(of_shift)
        return found
