"""The batch that a replay buffer draws, and the batches of several sources as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.losses import CriticLoss, RowwiseLoss
from interreplay.transitions import Transitions, cat, describe_column


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


FILL_VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "mix": torch.ones_like,
    "variances": torch.zeros_like,
    "row_weights": torch.ones_like,
    "actor_weights": torch.ones_like,
}
"""Values of optional columns for the rows of sources that do not have them."""


class JoinedSample(Sample):
    """The batches of several sources in order.

    Extra columns are kept if all sources have them. If only some sources blend, predict or weight rows, the rows of the
    others count as unblended anchors with variance 0 and weight 1. Probabilities are multiplied by the source's share
    of the batch. Columns that updates do not use are joined on first access.
    """

    parts: tuple[Sample, ...]
    numbers: tuple[int, ...]
    slots: cached_property[Tensor] = cached_property(lambda self: self._join("slots"))
    neighbor_slots: cached_property[Tensor] = cached_property(lambda self: self._join("neighbor_slots"))
    mix: cached_property[Tensor | None] = cached_property(lambda self: self._fill("mix"))
    variances: cached_property[Tensor | None] = cached_property(lambda self: self._fill("variances"))
    row_weights: cached_property[Tensor | None] = cached_property(lambda self: self._fill("row_weights"))
    actor_weights: cached_property[Tensor | None] = cached_property(lambda self: self._fill("actor_weights"))

    def __init__(self, parts: Sequence[Sample], origins: Sequence[int]):
        devices = [part.weights.device for part in parts if part.weights.device.type != "cpu"]
        if devices:  # `DeviceNMER` draws on a GPU
            parts = [part.to(devices[0]) for part in parts]
        self.__dict__.update(  # the dataclass is frozen
            parts=tuple(parts),
            numbers=tuple(origins),
            transitions=cat([part.transitions for part in parts]),
            targets=None,
        )
        self.__dict__["weights"] = self._join("weights")

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def probabilities(self) -> Tensor:
        return torch.cat([self._probabilities(part) for part in self.parts])

    @cached_property
    def write_count(self) -> Tensor:
        return self._repeat([part.write_count for part in self.parts])

    @cached_property
    def origins(self) -> Tensor:
        return self._repeat(self.numbers)

    @cached_property
    def critic_loss(self) -> CriticLoss | None:
        losses = [part.critic_loss for part in self.parts]
        if not any(losses):
            return None
        return RowwiseLoss(tuple(zip(map(len, self.parts), losses, strict=True)))

    def select_source(self, origin: int) -> tuple[Sample, slice]:
        """Return the rows of one source as it drew them, with the optional columns of the batch, and their slice."""
        start = 0
        for part, number in zip(self.parts, self.numbers, strict=True):
            where = slice(start, start + len(part))
            start = where.stop
            if number != origin:
                continue
            columns: dict[str, Any] = {"transitions": self.transitions[where], "origins": None, "targets": None}
            for name in FILL_VALUES:
                columns[name] = getattr(self, name)
                if columns[name] is not None:
                    columns[name] = columns[name][where]
            return part.replace(probabilities=self._probabilities(part), **columns), where
        return self.rows(slice(0, 0)), slice(0, 0)

    def _probabilities(self, part: Sample) -> Tensor:
        return part.probabilities * (len(part) / len(self))

    def _join(self, name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in self.parts])

    def _repeat(self, numbers: Iterable[Any]) -> Tensor:
        """Return a number of each part for each of its rows."""
        columns = []
        for part, number in zip(self.parts, numbers, strict=True):
            columns.append(torch.full_like(part.slots, number))
        return torch.cat(columns)

    def _fill(self, name: str) -> Tensor | None:
        """Return an optional column of all parts, filled for parts that lack it; None if all lack it."""
        columns = [getattr(part, name) for part in self.parts]
        given = [column for column in columns if column is not None]
        if not given:
            return None
        for number, part in enumerate(self.parts):
            if columns[number] is None:
                columns[number] = FILL_VALUES[name](given[0][:1].expand(len(part), *given[0].shape[1:]))
        return torch.cat(columns)
