"""JoinedSample: the batches of several sources as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from interreplay.buffer.sample import Sample
from interreplay.learning.losses import ByRows, CriticLoss
from interreplay.transitions import Transitions, cat


class JoinedSample(Sample):
    """The batches of several sources, one after the other.

    Extra columns stay where all have them. Where some blend, predict or weigh rows, those of others are their anchors,
    certain and of weight 1; each row's probability is times its source's part of the batch. Columns that updates do not
    learn from are put together when they are asked for.

    Args:
        parts: The batch of each.
        origins: Numbers of the sources.
    """

    parts: tuple[Sample, ...]
    numbers: tuple[int, ...]

    def __init__(self, parts: Sequence[Sample], origins: Sequence[int]):
        transitions: Transitions = cat([part.transitions for part in parts])
        weights = torch.cat([part.weights for part in parts])
        own = {"parts": tuple(parts), "numbers": tuple(origins), "transitions": transitions, "weights": weights}
        self.__dict__.update(own, targets=None)  # the fields of a frozen dataclass

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def slots(self) -> Tensor:
        return torch.cat([part.slots for part in self.parts])

    @cached_property
    def neighbor_slots(self) -> Tensor:
        return torch.cat([part.neighbor_slots for part in self.parts])

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
        return self._filled("mix", torch.ones_like)

    @cached_property
    def variances(self) -> Tensor | None:
        return self._filled("variances", torch.zeros_like)

    @cached_property
    def row_weights(self) -> Tensor | None:
        return self._filled("row_weights", torch.ones_like)

    @cached_property
    def actor_weights(self) -> Tensor | None:
        return self._filled("actor_weights", torch.ones_like)

    @cached_property
    def critic_loss(self) -> CriticLoss | None:
        if all(part.critic_loss is None for part in self.parts):
            return None
        return ByRows(tuple((len(part), part.critic_loss) for part in self.parts))

    def of(self, origin: int) -> tuple[Sample, slice]:
        """Return the rows of one source as it drew them, and where they lie."""
        start = 0
        for part, number in zip(self.parts, self.numbers, strict=True):
            where = slice(start, start + len(part))
            if number == origin:
                return self._completed(part, where), where
            start = where.stop
        return self.rows(slice(0, 0)), slice(0, 0)

    def _completed(self, part: Sample, where: slice) -> Sample:
        """Return a part with those columns that the whole batch has."""
        columns: dict[str, Any] = {"transitions": self.transitions[where], "origins": None, "targets": None}
        for name in ("mix", "variances", "row_weights", "actor_weights"):
            column = getattr(self, name)
            columns[name] = None if column is None else column[where]
        return replace(part, probabilities=self._probabilities(part), **columns)

    def _probabilities(self, part: Sample) -> Tensor:
        return part.probabilities * (len(part) / len(self))

    def _filled(self, name: str, fill: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return a column of all parts, None where none has it; where some have it, `fill` makes that of the others."""
        found = [getattr(part, name) for part in self.parts]
        like = next((column for column in found if column is not None), None)
        if like is None:
            return None
        rows = [like[:1].expand(len(part), *like.shape[1:]) for part in self.parts]
        return torch.cat([fill(row) if column is None else column for column, row in zip(found, rows, strict=True)])
