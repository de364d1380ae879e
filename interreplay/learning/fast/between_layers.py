"""What may stand between a layer and its activation: dropout, then layer normalization."""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-5
"""Added to variances (Ba et al. 2016, arXiv:1607.06450; the value is PyTorch's)."""


class BetweenLayers:
    """Dropout and then layer normalization, or either alone, of one hidden layer in one forward pass.

    With kept units h/(1 − p), x̂ = (h − mean h)/σ over a row and outputs γ·x̂ + β, and gradients g of these, that of h
    is (γg − mean(γg) − x̂·mean(γg·x̂))/σ, 0 where a unit was left out; those of γ and β are sums of g·x̂ and of g.
    The factor 1/(1 − p) takes no pass of its own before a normalization: it is one of ε there.

    Args:
        scale: γ ``(1, width)`` of one network or ``(m, 1, width)`` of m at once; None for no normalization.
        shift: β of the same shape, or None.
        dropped: Flat indices of the units that are left out, or None.
        keep: 1 − p.
    """

    def __init__(self, scale: Tensor | None, shift: Tensor | None, dropped: Tensor | None, keep: float):
        self._scale, self._shift, self._dropped, self._keep = scale, shift, dropped, keep
        self._apart = scale is not None and scale.ndim == 2

    def forward(self, values: Tensor) -> Tensor:
        """Return outputs for a layer's values ``(..., n, width)``, which are changed."""
        if self._dropped is not None:
            values.view(-1).index_fill_(0, self._dropped, 0.0)
        if self._scale is None:
            return values.mul_(1.0 / self._keep)
        assert self._shift is not None
        eps = EPS if self._dropped is None else EPS * self._keep**2
        self._values, width = values, [values.shape[-1]]
        affine = (self._scale[0], self._shift[0]) if self._apart else (None, None)
        outputs, self._mean, self._inverse = torch.native_layer_norm(values, width, *affine, eps)
        return outputs if self._apart else torch.addcmul(self._shift, outputs, self._scale)

    def rows(self, which: Tensor) -> BetweenLayers:
        """Return the same for some of the rows of one network without dropout."""
        part = BetweenLayers(self._scale, self._shift, None, self._keep)
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
        if self._scale is not None:
            gradient = self._through_normalization(gradient, into)
        else:
            gradient = gradient.mul_(1.0 / self._keep)
        if self._dropped is not None:
            gradient = gradient.contiguous()
            gradient.view(-1).index_fill_(0, self._dropped, 0.0)
        return gradient

    def _through_normalization(self, gradient: Tensor, into: tuple[Tensor, Tensor] | None) -> Tensor:
        assert self._scale is not None and self._shift is not None
        values, width, wanted = self._values, [self._values.shape[-1]], into is not None
        moments = self._mean, self._inverse
        if self._apart:
            parameters, mask = (self._scale[0], self._shift[0]), [True, wanted, wanted]
        else:
            if into is not None:
                normalized = (values - self._mean) * self._inverse
                torch.sum(gradient * normalized, dim=-2, keepdim=True, out=into[0])
                torch.sum(gradient, dim=-2, keepdim=True, out=into[1])
            parameters, mask, gradient = (None, None), [True, False, False], gradient * self._scale
        found = torch.ops.aten.native_layer_norm_backward(gradient, values, width, *moments, *parameters, mask)
        if self._apart and into is not None:
            into[0].copy_(found[1]), into[1].copy_(found[2])
        return found[0]
