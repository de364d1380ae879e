"""Credit: whose priority a TD error changes when the row was a blend of two."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from interreplay.selection import Selector, Stored


class PriorityUpdate(ABC):
    """Weights of sampled rows, and what their TD errors do to the selector."""

    def check(self, selector: Selector) -> None:  # noqa: B027
        """Raise ValueError when the selector lacks what this credit needs; the default needs nothing."""

    @abstractmethod
    def weights(
        self, storage: Stored, selector: Selector, anchors: Tensor, drawn: Tensor, partners: Tensor, mix: Tensor | None
    ) -> Tensor:
        """Return importance weights ``(n,)``.

        Args:
            storage: Where the rows lie.
            selector: Drew the anchors.
            anchors: Slots ``(n,)``.
            drawn: Probabilities ``(n,)`` with which the anchors were drawn.
            partners: Slots ``(n,)`` of the rows blended in, −1 where none.
            mix: λ ``(n,)`` or None.
        """

    @abstractmethod
    def update(
        self, selector: Selector, anchors: Tensor, partners: Tensor, mix: Tensor | None, td_errors: Tensor
    ) -> None:
        """Hand the TD errors ``(n,)`` to the selector."""


class AnchorPriority(PriorityUpdate):
    """All to the anchor. The default: the anchor is what the selector drew."""

    def weights(
        self, storage: Stored, selector: Selector, anchors: Tensor, drawn: Tensor, partners: Tensor, mix: Tensor | None
    ) -> Tensor:
        return selector.weights(storage, drawn)

    def update(
        self, selector: Selector, anchors: Tensor, partners: Tensor, mix: Tensor | None, td_errors: Tensor
    ) -> None:
        selector.update(anchors, td_errors)


class InterpolatedPriority(PriorityUpdate):
    """To both ends, by their share in the blend (the interpolated priorities of NMER's original implementation).

    p_i ← λ|δ| + (1 − λ)p_i + ε for the anchor, p_j ← (1 − λ)|δ| + λp_j + ε for the neighbor, and the
    importance weight is λw_i + (1 − λ)w_j. A row that is an anchor and another's neighbor in one batch
    keeps what it got as an anchor.
    """

    def check(self, selector: Selector) -> None:
        if not selector.supports_priorities:
            raise ValueError(f"interpolated priorities need the selector Prioritized; got {type(selector).__name__}")

    def weights(
        self, storage: Stored, selector: Selector, anchors: Tensor, drawn: Tensor, partners: Tensor, mix: Tensor | None
    ) -> Tensor:
        other = torch.where(partners >= 0, partners, anchors)
        both = selector.weights(storage, torch.cat([drawn, selector.probabilities(other, storage)]))
        own, theirs = both.chunk(2)
        share = torch.ones_like(own) if mix is None else mix.to(own)
        weights = share * own + (1 - share) * theirs
        return weights / weights.max()

    def update(
        self, selector: Selector, anchors: Tensor, partners: Tensor, mix: Tensor | None, td_errors: Tensor
    ) -> None:
        error = td_errors.detach().abs()
        share = torch.ones_like(error) if mix is None else mix.to(error)
        mine = share * error + (1 - share) * selector.priorities(anchors) + selector.eps
        mixed = partners >= 0
        share, error, others = share[mixed], error[mixed], partners[mixed]
        theirs = (1 - share) * error + share * selector.priorities(others) + selector.eps
        selector.set_priorities(torch.cat([others, anchors]), torch.cat([theirs, mine]))


Credit, CreditAnchor, CreditBoth = PriorityUpdate, AnchorPriority, InterpolatedPriority
"""Their names before."""
