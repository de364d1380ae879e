"""The contract of synthesizers: what a batch is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from torch import Tensor

from interreplay.part import Part
from interreplay.transitions import Transitions


class Synthesizer(Part, ABC):
    """Makes the rows of a batch from anchors and their neighbours.

    Attributes:
        uses_neighbors: False where `neighbors` is never looked at, so that the buffer need not gather any;
            it then passes the anchors.
        recomputes_termination: True where `terminated` may differ from the anchor's. The rows then come
            back without discounts, and the buffer fills in γ·(1 − terminated).
    """

    uses_neighbors: bool = True
    recomputes_termination: bool = False

    @abstractmethod
    def __call__(
        self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator
    ) -> tuple[Transitions, Tensor | None]:
        """Make n rows.

        Args:
            anchors: ``(n, ...)``.
            neighbors: ``(n, k, ...)``.
            rng: Source of all randomness.

        Returns:
            Transitions ``(n, ...)`` and λ ``(n,)``, the share of the anchor in each row, 1 where it is
            the anchor unchanged; None when nothing is ever mixed.
        """
