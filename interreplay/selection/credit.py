"""Priority updates: which rows' priorities change by the TD error of a blend of two rows."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.selection.base import Selector, SlotStore


class PriorityUpdate:
    """Computes importance weights of sampled rows and passes their TD errors to the selector.

    This default assigns both to the anchor, which the selector drew.
    """

    def check(self, selector: Selector) -> None:
        """Raise ValueError if the selector lacks what this update requires; nothing by default."""

    def weights(
        self,
        storage: SlotStore,
        selector: Selector,
        anchors: Tensor,
        drawn: Tensor,
        partners: Tensor,
        mix: Tensor | None,
    ) -> Tensor:
        """Return importance weights ``(n,)``.

        Args:
            storage: Storage of the rows.
            selector: Selector that drew the anchors.
            anchors: Slots ``(n,)``.
            drawn: Probabilities ``(n,)`` of drawing the anchors.
            partners: Slots ``(n,)`` of the blended rows, −1 for none.
            mix: λ ``(n,)``, or None.
        """
        return selector.weights(storage, drawn)

    def update(
        self, selector: Selector, anchors: Tensor, partners: Tensor, mix: Tensor | None, td_errors: Tensor
    ) -> None:
        """Pass TD errors ``(n,)`` to the selector; other arguments as in `weights`."""
        selector.update(anchors, td_errors)


class InterpolatedPriority(PriorityUpdate):
    """Assigns the TD error to anchor and neighbor by their shares, as NMER's original implementation does.

    p_i ← λ|δ| + (1 − λ)p_i + ε for the anchor and p_j ← (1 − λ)|δ| + λp_j + ε for the neighbor. The importance weight
    is λw_i + (1 − λ)w_j. If a row is an anchor and another anchor's neighbor in one batch, its priority as an anchor
    is kept.
    """

    def check(self, selector: Selector) -> None:
        if not selector.supports_priorities:
            raise ValueError(f"interpolated priorities need the selector Prioritized; got {type(selector).__name__}")

    def weights(
        self,
        storage: SlotStore,
        selector: Selector,
        anchors: Tensor,
        drawn: Tensor,
        partners: Tensor,
        mix: Tensor | None,
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
        own = share * error + (1 - share) * selector.priorities(anchors) + selector.eps
        blended = partners >= 0
        share = share[blended]
        others = partners[blended]
        theirs = (1 - share) * error[blended] + share * selector.priorities(others) + selector.eps
        selector.set_priorities(torch.cat([others, anchors]), torch.cat([theirs, own]))
