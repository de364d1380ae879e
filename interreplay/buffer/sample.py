"""Sample: a batch that a replay buffer drew."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor

from interreplay.learning.losses import CriticLoss
from interreplay.transitions import Transitions, described


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
        write_count: Number of rows ever added when the batch was drawn; of several sources ``(n,)``, each row's own.
        variances: Predictive variances of [r; Δs] ``(n, 1 + d_s)`` where rows are predicted, 0 for rows that are their
            anchor; None where nothing is predicted.
        row_weights: Weights ``(n,)`` with mean 1 for all losses, or None for equal ones.
        actor_weights: Further weights ``(n,)`` for the losses of the actor and the temperature alone, or None.
        critic_loss: The critics' loss of these rows, where the method has one; None for the algorithm's own.
        targets: What the critics are to learn ``(n,)``, for the next update alone, where drawing the rows has computed
            it; None for not.
        origins: Numbers ``(n,)`` of the sources that rows were drawn from, or within one source of the selectors; None
            where there is but one. Slots and `write_count` are those of the source.
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

    @property
    def written(self) -> int | Tensor:
        """`write_count`, by the name that it had."""
        return self.write_count

    def __len__(self) -> int:
        return len(self.slots)

    def split(self, size: int) -> list[Sample]:
        """Return the same rows as batches of `size`, in order; views, no copies.

        Raises:
            ValueError: When `size` does not divide the number of rows.
        """
        if size < 1 or len(self) % size:
            raise ValueError(f"cannot split {len(self)} rows into batches of {size}; expected a divisor")
        if len(self) == size:
            return [self]
        return [self.rows(slice(start, start + size)) for start in range(0, len(self), size)]

    def rows(self, which: slice | Tensor) -> Sample:
        """Return some of the rows: a slice of them, or those of a mask ``(n,)``."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        loss = columns.pop("critic_loss")
        chosen: dict[str, Any] = {k: v if v is None or isinstance(v, int) else v[which] for k, v in columns.items()}
        return Sample(**chosen, critic_loss=None if loss is None else loss.of_rows(which))

    def of(self, origin: int) -> tuple[Sample, Tensor | slice]:
        """Return the rows of one source as it drew them, and which ``(n,)`` they are."""
        assert self.origins is not None and isinstance(self.write_count, Tensor)
        mask = self.origins == origin
        found = self.rows(mask)
        assert isinstance(found.write_count, Tensor)
        return replace(found, write_count=int(found.write_count[0]) if len(found) else 0, origins=None), mask

    def __repr__(self) -> str:
        """Return the number of rows, how many of them are blended, and the shapes of the columns."""
        blended = "" if self.mix is None else f", {int((self.mix < 1).sum())} blended"
        columns = self.transitions.columns().items()
        shapes = ", ".join(f"{name} {described(column)}" for name, column in columns)
        return f"Sample({len(self)} rows{blended}: {shapes})"
