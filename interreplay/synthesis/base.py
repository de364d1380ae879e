"""The contract of synthesizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from interreplay.part import Part
from interreplay.storage.columns import Columns, discrete_columns, is_observation, reject_integers
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions


@dataclass(frozen=True)
class Synthesized:
    """The result of a synthesizer.

    Attributes:
        rows: Transitions ``(n, ...)``.
        mix: λ ``(n,)``, the share of the anchor in each row, 1 if the row is its anchor. None if the synthesizer never
            blends.
        variances: Predictive variances of [r; Δs] in their own units ``(n, 1 + d_s)``, 0 if the row is its anchor. None
            if nothing is predicted.
        row_weights: Weights of the rows in all losses ``(n,)``, with mean 1. None for equal weights.
    """

    rows: Transitions
    mix: Tensor | None = None
    variances: Tensor | None = None
    row_weights: Tensor | None = None


class Synthesizer(Part, ABC):
    """Creates the rows of a batch from anchors and their neighbors.

    Attributes:
        uses_neighbors: False if `neighbors` is ignored. The buffer then gathers none and passes the anchors.
        recomputes_termination: True if `terminated` may differ from the anchor's. The rows are then returned without
            discounts, and the buffer fills in γ·(1 − terminated). Rows without a neighbor keep the anchor's value.
        recomputes_rewards: True if rewards and termination may be recomputed for other goals (single steps only). The
            buffer then fills in discounts as well.
    """

    uses_neighbors: bool = True
    recomputes_termination: bool = False
    recomputes_rewards: bool = False

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        """Read the storage before each batch."""

    @abstractmethod
    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        """Create n rows.

        Args:
            anchors: Anchors ``(n, ...)``.
            neighbors: Their neighbors ``(n, k, ...)``.
            rng: Source of all randomness.
        """


class Identity(Synthesizer):
    """Every row is its anchor."""

    uses_neighbors = False

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        return Synthesized(anchors)


def reject_without_floats(columns: Columns, operation: str, also: Collection[str] = ("actions",)) -> None:
    """Reject rows without floats among observations and the columns in `also`; discrete columns are not changed.

    `operation` is a participle such as "blended".

    Raises:
        ValueError: For byte arrays, such as images, and if all columns are discrete.
    """
    discrete = discrete_columns(columns)
    rest = {name: spec for name, spec in columns.items() if name not in discrete}
    reject_integers(rest, operation, also)
    if not any(is_observation(name) or name in also for name in rest):
        affected = [name for name in discrete if is_observation(name) or name in also]
        named = " and ".join(f"{name} of {columns[name][1]}" for name in affected)
        raise ValueError(f"{named} cannot be {operation}; expected floats among the observations and actions")
