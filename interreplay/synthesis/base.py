"""The contract of synthesizers: what a batch is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from interreplay.part import Part
from interreplay.storage.columns import Columns, discrete_columns, is_observation
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions


@dataclass(frozen=True)
class Synthesized:
    """What a synthesizer made.

    Attributes:
        rows: Transitions ``(n, ...)``.
        mix: λ ``(n,)``, the share of the anchor in each row, 1 where it is the anchor unchanged; None when nothing is
            ever mixed.
        variances: Predictive variances of [r; Δs] in their own units ``(n, 1 + d_s)``, 0 where a row is its anchor;
            None when nothing is predicted.
        row_weights: Weights ``(n,)`` of the rows in all losses, mean 1, or None for equal ones.
    """

    rows: Transitions
    mix: Tensor | None = None
    variances: Tensor | None = None
    row_weights: Tensor | None = None


class Synthesizer(Part, ABC):
    """Makes the rows of a batch from anchors and their neighbors.

    Attributes:
        uses_neighbors: False where `neighbors` is never looked at, so that the buffer need not gather any;
            it then passes the anchors.
        recomputes_termination: True where `terminated` may differ from the anchor's. The rows then come
            back without discounts, and the buffer fills in γ·(1 − terminated). Rows without a neighbor keep
            their anchor's.
        recomputes_rewards: True where rewards, and with them termination, are those of other goals; of single steps
            only. The buffer fills in discounts then as well.
    """

    uses_neighbors: bool = True
    recomputes_termination: bool = False
    recomputes_rewards: bool = False

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        """Look at what is stored, before a batch is made."""

    def arrange(self, storage: Storage, slots: Tensor, neighbors: Tensor) -> Tensor:
        """Order the slots of neighbors ``(n, k)`` of the rows in `slots` ``(n,)``, each row in a way of one's own."""
        return neighbors

    @abstractmethod
    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        """Make n rows.

        Args:
            anchors: ``(n, ...)``.
            neighbors: ``(n, k, ...)``.
            rng: Source of all randomness.
        """


def refuse_integers(columns: Columns, done: str, also: Collection[str] = ()) -> None:
    """Refuse observations that are no floats.

    Args:
        columns: What a stored row is made of.
        done: What would be done to them, as a participle, for the message.
        also: Further columns that have to be floats.

    Raises:
        ValueError: Naming the first such column and its dtype.
    """
    for name, (_, dtype) in columns.items():
        if (is_observation(name) or name in also) and not dtype.is_floating_point:
            keeping = "a buffer that blends nothing" if done == "blended" else "a buffer that keeps rows as they are"
            raise ValueError(f"{name} of {dtype} cannot be {done}; expected floats, or {keeping}")


def refuse_without_numbers(columns: Columns, done: str, also: Collection[str] = ("actions",)) -> None:
    """Refuse rows without numbers that something could be done to: choices stay as they are.

    Args:
        columns: What a stored row is made of.
        done: What would be done to numbers of the observation, as a participle, for the message.
        also: Further columns that it would be done to.

    Raises:
        ValueError: For arrays of bytes, such as images, and where there are choices alone.
    """
    choices = discrete_columns(columns)
    rest = {name: spec for name, spec in columns.items() if name not in choices}
    refuse_integers(rest, done, also)
    if not any(is_observation(name) or name in also for name in rest):
        named = " and ".join(f"{n} of {columns[n][1]}" for n in choices if is_observation(n) or n in also)
        raise ValueError(f"{named} cannot be {done}, and there is nothing else; expected floats among them")
