"""Sample: a batch that a replay buffer drew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.losses import ByRows, CriticLoss
from interreplay.transitions import Transitions, cat, described


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

    def of(self, origin: int) -> tuple[Sample, Tensor]:
        """Return the rows of one source as it drew them, and the mask ``(n,)`` of these."""
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


def join(samples: Sequence[Sample], origins: Sequence[int]) -> Sample:
    """Return the batches of several sources as one.

    Args:
        samples: One of each.
        origins: Numbers of the sources.

    Extra columns stay where all have them. Where some blend, predict or weigh rows, those of others are their anchors,
    certain and of weight 1; each row's probability is times its source's part of the batch.
    """
    total = sum(map(len, samples))
    columns: dict[str, Any] = {
        "transitions": cat([sample.transitions for sample in samples]),
        "slots": _joined(samples, "slots"),
        "weights": _joined(samples, "weights"),
        "neighbor_slots": _joined(samples, "neighbor_slots"),
        "mix": _joined(samples, "mix", torch.ones_like),
        "probabilities": torch.cat([sample.probabilities * (len(sample) / total) for sample in samples]),
        "write_count": torch.cat([torch.full_like(sample.slots, sample.write_count) for sample in samples]),  # type: ignore[arg-type]
        "variances": _joined(samples, "variances"),
        "row_weights": _joined(samples, "row_weights", torch.ones_like),
        "actor_weights": _joined(samples, "actor_weights", torch.ones_like),
        "critic_loss": _joined_losses(samples),
        "origins": torch.cat([torch.full_like(s.slots, o) for s, o in zip(samples, origins, strict=True)]),
    }
    return Sample(**columns)


def _joined_losses(samples: Sequence[Sample]) -> CriticLoss | None:
    """Return the critics' losses of all samples as one, None where none brings any."""
    if all(sample.critic_loss is None for sample in samples):
        return None
    return ByRows(tuple((len(sample), sample.critic_loss) for sample in samples))


def _joined(samples: Sequence[Sample], name: str, fill: Callable[[Tensor], Tensor] = torch.zeros_like) -> Tensor | None:
    """Return a column of all samples, None where none has it; where some have it, `fill` makes that of the others."""
    found = [getattr(sample, name) for sample in samples]
    like = next((column for column in found if column is not None), None)
    if like is None:
        return None
    rows = [like[:1].expand(len(sample), *like.shape[1:]) for sample in samples]
    return torch.cat([fill(row) if column is None else column for column, row in zip(found, rows, strict=True)])
