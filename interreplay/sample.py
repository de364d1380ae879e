"""Sample: a batch that a replay buffer drew."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from interreplay.learning.losses import CriticLoss
from interreplay.transitions import Transitions


@dataclass(frozen=True, repr=False)
class Sample:
    """A batch of n rows and where they come from.

    Attributes:
        transitions: What to learn from, ``(n, ...)``.
        slots: Slots of the anchors ``(n,)``.
        weights: Importance weights ``(n,)``, for the loss of the critic.
        neighbor_slots: Slots ``(n,)`` of the rows that were blended in, −1 where none was, or none that is stored.
        mix: λ ``(n,)``, the anchor's share in each row, or None when the method blends nothing.
        probabilities: Probability ``(n,)`` with which each anchor was drawn.
        written: Number of rows ever added when the batch was drawn.
        variances: Predictive variances of [r; Δs] ``(n, 1 + d_s)`` where rows are predicted, 0 for rows that are their
            anchor; None where nothing is predicted.
        row_weights: Weights ``(n,)`` with mean 1 for all losses, or None for equal ones.
        actor_weights: Further weights ``(n,)`` for the losses of the actor and the temperature alone, or None.
        critic_loss: The critics' loss of these rows, where the method has one; None for the algorithm's own.
    """

    transitions: Transitions
    slots: Tensor
    weights: Tensor
    neighbor_slots: Tensor
    mix: Tensor | None
    probabilities: Tensor
    written: int
    variances: Tensor | None = None
    row_weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def split(self, size: int) -> list[Sample]:
        """The same rows as batches of `size`, in order; views, no copies.

        Raises:
            ValueError: When `size` does not divide the number of rows.
        """
        if size < 1 or len(self) % size:
            raise ValueError(f"cannot split {len(self)} rows into batches of {size}; expected a divisor")
        if len(self) == size:
            return [self]
        return [self._rows(slice(start, start + size)) for start in range(0, len(self), size)]

    def _rows(self, rows: slice) -> Sample:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        loss = columns.pop("critic_loss")
        loss = None if loss is None else loss.of_rows(rows.start, rows.stop)
        kept = {k: v if v is None or k == "written" else v[rows] for k, v in columns.items()}
        return Sample(**kept, critic_loss=loss)

    def __repr__(self) -> str:
        """Return the number of rows, how many of them are blended, and the shapes of the columns."""
        blended = "" if self.mix is None else f", {int((self.mix < 1).sum())} blended"
        columns = self.transitions.columns().items()
        shapes = ", ".join(f"{name} {describe(column)}" for name, column in columns)
        return f"Sample({len(self)} rows{blended}: {shapes})"


def describe(column: Tensor) -> str:
    """Return a column's shape and dtype, such as ``(256, 17) float32``."""
    return f"{tuple(column.shape)} {str(column.dtype).removeprefix('torch.')}"
