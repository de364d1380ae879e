"""The batch that a replay buffer draws."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.losses import CriticLoss
from interreplay.transitions import Transitions, describe_column


@dataclass(frozen=True, repr=False)
class Sample:
    """A batch of n rows and their origin.

    Attributes:
        transitions: The rows to learn from, ``(n, ...)``.
        slots: Slots of the anchors ``(n,)``.
        weights: Importance weights ``(n,)`` of the critic loss.
        neighbor_slots: Slots ``(n,)`` of the blended neighbors, −1 for no stored neighbor.
        mix: λ ``(n,)``, the anchor's share in each row, or None if the method does not blend.
        probabilities: Probability ``(n,)`` of drawing each anchor.
        write_count: Number of rows ever added when the batch was drawn; for several sources ``(n,)``.
        variances: Predictive variances of [r; Δs] ``(n, 1 + d_s)`` if rows are predicted, 0 for rows that equal their
            anchor; otherwise None.
        row_weights: Weights ``(n,)`` with mean 1 for all losses, or None for equal weights.
        actor_weights: Additional weights ``(n,)`` for the actor and temperature losses only, or None.
        critic_loss: Critic loss of these rows, or None for the algorithm's default.
        targets: Critic targets ``(n,)``, valid for the next update only, if drawing the rows has computed them.
        origins: Index ``(n,)`` of the source of each row, or within one source of its selector; None if there is only
            one. Slots and `write_count` refer to the source.
    """

    transitions: Transitions
    slots: Tensor
    weights: Tensor
    neighbor_slots: Tensor
    mix: Tensor | None
    probabilities: Tensor
    write_count: int | Tensor
    variances: Tensor | None = None
    row_weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None
    targets: Tensor | None = None
    origins: Tensor | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def to(self, device: torch.device) -> Sample:
        """Return the batch on a device, without copying what is already there."""
        if self.weights.device == device:
            return self
        moved: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor | Transitions):
                moved[field.name] = value.to(device)
        return self.replace(**moved)

    def replace(self, **columns: Any) -> Sample:
        """Return the batch with some columns replaced."""
        kept = {field.name: getattr(self, field.name) for field in fields(Sample) if field.name not in columns}
        return Sample(**kept, **columns)

    def split(self, size: int) -> list[Sample]:
        """Return the rows as batches of `size` in the same order, without copying.

        Raises:
            ValueError: If `size` does not divide the number of rows.
        """
        if size < 1 or len(self) % size:
            raise ValueError(f"cannot split {len(self)} rows into batches of {size}; expected a divisor")
        if len(self) == size:
            return [self]
        return [self.rows(slice(start, start + size)) for start in range(0, len(self), size)]

    def rows(self, which: slice | Tensor) -> Sample:
        """Return the rows of a slice or a mask ``(n,)``."""
        chosen: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, CriticLoss):
                value = value.select_rows(which)
            elif not isinstance(value, int | None):
                value = value[which]
            chosen[field.name] = value
        return Sample(**chosen)

    def select_source(self, origin: int) -> tuple[Sample, Tensor | slice]:
        """Return the rows of one source as it drew them, and a mask ``(n,)`` or slice of them."""
        assert self.origins is not None and isinstance(self.write_count, Tensor)
        mask = self.origins == origin
        found = self.rows(mask)
        assert isinstance(found.write_count, Tensor)
        return found.replace(write_count=int(found.write_count[:1].sum()), origins=None), mask

    def __repr__(self) -> str:
        blended = ""
        if self.mix is not None:
            blended = f", {int((self.mix < 1).sum())} blended"
        shapes = ", ".join(f"{name} {describe_column(column)}" for name, column in self.transitions.columns().items())
        return f"Sample({len(self)} rows{blended}: {shapes})"
