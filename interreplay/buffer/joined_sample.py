"""The batches of several sources, joined to one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter, methodcaller
from typing import Any

import torch
from torch import Tensor

from interreplay.buffer.sample import Sample
from interreplay.learning.losses import CriticLoss, RowwiseLoss
from interreplay.transitions import cat

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
    slots: cached_property[Tensor] = cached_property(methodcaller("_join", "slots"))
    neighbor_slots: cached_property[Tensor] = cached_property(methodcaller("_join", "neighbor_slots"))
    mix: cached_property[Tensor | None] = cached_property(methodcaller("_fill", "mix"))
    variances: cached_property[Tensor | None] = cached_property(methodcaller("_fill", "variances"))
    row_weights: cached_property[Tensor | None] = cached_property(methodcaller("_fill", "row_weights"))
    actor_weights: cached_property[Tensor | None] = cached_property(methodcaller("_fill", "actor_weights"))

    def __init__(self, parts: Sequence[Sample], origins: Sequence[int]):
        devices = [part.weights.device for part in parts if part.weights.device.type != "cpu"]
        if devices:  # `DeviceNMER` draws on a GPU
            parts = [part.to(devices[0]) for part in parts]
        self.__dict__.update(  # the dataclass is frozen
            parts=tuple(parts),
            numbers=tuple(origins),
            transitions=cat(list(map(attrgetter("transitions"), parts))),
            targets=None,
        )
        self.__dict__["weights"] = self._join("weights")

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def probabilities(self) -> Tensor:
        return torch.cat(list(map(self._probabilities, self.parts)))

    @cached_property
    def write_count(self) -> Tensor:
        return self._repeat(map(attrgetter("write_count"), self.parts))

    @cached_property
    def origins(self) -> Tensor:
        return self._repeat(self.numbers)

    @cached_property
    def critic_loss(self) -> CriticLoss | None:
        losses = list(map(attrgetter("critic_loss"), self.parts))
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
        return torch.cat(list(map(attrgetter(name), self.parts)))

    def _repeat(self, numbers: Iterable[Any]) -> Tensor:
        """Return a number of each part for each of its rows."""
        return torch.cat(list(map(torch.full_like, map(attrgetter("slots"), self.parts), numbers)))

    def _fill(self, name: str) -> Tensor | None:
        """Return an optional column of all parts, filled for parts that lack it; None if all lack it."""
        columns = list(map(attrgetter(name), self.parts))
        given = [column for column in columns if column is not None]
        if not given:
            return None
        for number, part in enumerate(self.parts):
            if columns[number] is None:
                columns[number] = FILL_VALUES[name](given[0][:1].expand(len(part), *given[0].shape[1:]))
        return torch.cat(columns)
