"""The batches of several sources, joined to one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from interreplay.buffer.sample import Sample
from interreplay.learning.losses import ByRows, CriticLoss
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

    Args:
        parts: The batch of each source.
        origins: The index of each source.
    """

    parts: tuple[Sample, ...]
    numbers: tuple[int, ...]

    def __init__(self, parts: Sequence[Sample], origins: Sequence[int]):
        self.__dict__.update(  # the dataclass is frozen
            parts=tuple(parts),
            numbers=tuple(origins),
            transitions=cat([part.transitions for part in parts]),
            weights=torch.cat([part.weights for part in parts]),
            targets=None,
        )

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def slots(self) -> Tensor:
        return self._joined("slots")

    @cached_property
    def neighbor_slots(self) -> Tensor:
        return self._joined("neighbor_slots")

    @cached_property
    def probabilities(self) -> Tensor:
        return torch.cat([self._probabilities(part) for part in self.parts])

    @cached_property
    def write_count(self) -> Tensor:
        return torch.cat([torch.full_like(part.slots, part.write_count) for part in self.parts])  # type: ignore[arg-type]

    @cached_property
    def origins(self) -> Tensor:
        numbered = zip(self.parts, self.numbers, strict=True)
        return torch.cat([torch.full_like(part.slots, number) for part, number in numbered])

    @cached_property
    def mix(self) -> Tensor | None:
        return self._filled("mix")

    @cached_property
    def variances(self) -> Tensor | None:
        return self._filled("variances")

    @cached_property
    def row_weights(self) -> Tensor | None:
        return self._filled("row_weights")

    @cached_property
    def actor_weights(self) -> Tensor | None:
        return self._filled("actor_weights")

    @cached_property
    def critic_loss(self) -> CriticLoss | None:
        if all(part.critic_loss is None for part in self.parts):
            return None
        return ByRows(tuple((len(part), part.critic_loss) for part in self.parts))

    def of(self, origin: int) -> tuple[Sample, slice]:
        """Return the rows of one source as it drew them, with the optional columns of the whole batch, and a slice."""
        start = 0
        for part, number in zip(self.parts, self.numbers, strict=True):
            where = slice(start, start + len(part))
            start = where.stop
            if number != origin:
                continue
            columns: dict[str, Any] = {"transitions": self.transitions[where], "origins": None, "targets": None}
            for name in FILL_VALUES:
                column = getattr(self, name)
                columns[name] = None if column is None else column[where]
            return replace(part, probabilities=self._probabilities(part), **columns), where
        return self.rows(slice(0, 0)), slice(0, 0)

    def _probabilities(self, part: Sample) -> Tensor:
        return part.probabilities * (len(part) / len(self))

    def _joined(self, name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in self.parts])

    def _filled(self, name: str) -> Tensor | None:
        """Return an optional column of all parts, filled for parts that lack it; None if all lack it."""
        columns = [getattr(part, name) for part in self.parts]
        like = next((column for column in columns if column is not None), None)
        if like is None:
            return None
        for number, part in enumerate(self.parts):
            if columns[number] is None:
                columns[number] = FILL_VALUES[name](like[:1].expand(len(part), *like.shape[1:]))
        return torch.cat(columns)
