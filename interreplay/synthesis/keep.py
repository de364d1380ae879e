"""The stored rows as they are."""

from __future__ import annotations

import numpy as np

from interreplay.synthesis.base import Synthesized, Synthesizer
from interreplay.transitions import Transitions


class Identity(Synthesizer):
    """The identity: every row is its anchor."""

    uses_neighbors = False

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        return Synthesized(anchors)
