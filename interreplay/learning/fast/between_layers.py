"""What may stand between a layer and its activation: dropout, then layer normalization."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.dropout import leave_out

EPS = 1e-5
"""Added to variances (Ba et al. 2016, arXiv:1607.06450; the value is PyTorch's)."""


class BetweenLayers:
    """Dropout and then layer normalization, or either alone, of one hidden layer in one forward pass.

    With kept units h/(1 − p), x̂ = (h − mean h)/σ over a row and outputs γ·x̂ + β, and gradients g of these, that of h
    is (γg − mean(γg) − x̂·mean(γg·x̂))/σ, 0 where a unit was left out; those of γ and β are sums of g·x̂ and of g.
    The factor 1/(1 − p) takes no pass of its own before a normalization: it is one of ε there.

    Args:
        norm: γ and β ``(width,)`` of one network, or ``(m, 1, width)`` of m at once; None for no normalization.
        dropped: The units that are left out, flat indices or a mask, or None.
        keep: 1 − p.
    """

    def __init__(self, norm: tuple[Tensor, Tensor] | None, dropped: Tensor | None, keep: float):
        self._norm, self._dropped, self._keep = norm, dropped, keep

    def forward(self, values: Tensor) -> Tensor:
        """Return outputs for a layer's values ``(..., n, width)``, which are changed."""
        if self._dropped is not None:
            leave_out(values, self._dropped)
        if self._norm is None:
            return values.mul_(1.0 / self._keep)
        self._values, (scale, shift) = values, self._norm
        eps = EPS if self._dropped is None else EPS * self._keep**2
        own = (scale, shift) if scale.ndim == 1 else (None, None)
        outputs, self._mean, self._inverse = torch.native_layer_norm(values, [values.shape[-1]], own[0], own[1], eps)
        return outputs if scale.ndim == 1 else torch.addcmul(shift, outputs, scale)

    def rows(self, which: Tensor) -> BetweenLayers:
        """Return the same for some of the rows of one network without dropout."""
        part = BetweenLayers(self._norm, None, self._keep)
        part._values, part._mean, part._inverse = self._values[which], self._mean[which], self._inverse[which]
        return part

    @property
    def drops(self) -> bool:
        """Whether units are left out."""
        return self._dropped is not None

    def backward(self, gradient: Tensor, into: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the gradient of a layer's values for that of the outputs ``(..., n, width)``, which may be changed.

        Args:
            gradient: Of the outputs.
            into: Where the gradients of γ and β are put; None where they are not wanted.
        """
        if self._norm is None:
            gradient = gradient.mul_(1.0 / self._keep)
        else:
            gradient = self._through_normalization(gradient, *self._norm, into)
        if self._dropped is not None:
            gradient = gradient.contiguous()
            leave_out(gradient, self._dropped)
        return gradient

    def _through_normalization(
        self, gradient: Tensor, scale: Tensor, shift: Tensor, into: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        kernel, values, moments = torch.ops.aten.native_layer_norm_backward, self._values, (self._mean, self._inverse)
        width = [values.shape[-1]]
        if scale.ndim == 3:  # the kernel knows one network alone
            if into is not None:
                torch.sum(gradient * ((values - self._mean) * self._inverse), dim=-2, keepdim=True, out=into[0])
                torch.sum(gradient, dim=-2, keepdim=True, out=into[1])
            return kernel(gradient * scale, values, width, *moments, None, None, [True, False, False])[0]
        wanted = [True, into is not None, into is not None]
        found, *of_norm = kernel(gradient, values, width, *moments, scale, shift, wanted)
        for whole, part in zip(into or (), of_norm, strict=False):
            whole.copy_(part)
        return found
