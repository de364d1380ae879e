"""Mixed selection: each batch drawn by several selectors, by shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.losses import ByRows, CriticLoss
from interreplay.selection.base import Drawn, Selector, Stored
from interreplay.selection.composite import Composite
from interreplay.selection.shares import Share, Shares


class MixedSelection(Composite):
    """A share of each batch by each of several selectors of the same stored rows, fixed or changing over the run.

    A row's error is news for every selector that keeps a priority of it, whoever drew the row: all of them get it,
    each in the form that it asks for. Importance weights are those of the selector that drew the row, of its own
    probabilities. `probabilities` are those of the mixture, Σ share·p(i), where all selectors know theirs; else those
    of the selector that drew the row, times its share.

    Args:
        selectors: By name, in order; `Sample.origins` are numbers in this order.
        shares: Of each batch by name, see `Shares`; equal ones by default.

    Raises:
        ValueError: When there is no selector, or shares do not fit.
    """

    def __init__(self, selectors: Mapping[str, Selector], shares: Mapping[str, Share] | None = None):
        if not selectors:
            raise ValueError("a mix of no selectors; expected at least one")
        super().__init__(selectors)
        self.shares = Shares(list(selectors), shares)
        self.knows_probabilities = all(part.knows_probabilities for part in self.selectors.values())

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        drawn = self.draw(stored, size, rng)
        return drawn.slots, drawn.probabilities

    def draw(self, stored: Stored, size: int, rng: np.random.Generator) -> Drawn:
        counts = self.shares.counts(size, list(self.selectors))
        parts = [self.selectors[name].draw(stored, count, rng) for name, count in counts.items()]
        slots = torch.cat([part.slots for part in parts])
        if self.knows_probabilities:
            probabilities = self.probabilities(slots, stored)
        else:
            probabilities = torch.cat([part.probabilities * (len(part.slots) / size) for part in parts])
        weights = [
            self.selectors[name].weights(stored, part.probabilities) if part.weights is None else part.weights
            for name, part in zip(counts, parts, strict=True)
        ]
        numbers = [
            torch.full_like(part.slots, list(self.selectors).index(n)) for n, part in zip(counts, parts, strict=True)
        ]
        shared = _actor_weights(parts), _critic_loss(parts)
        return Drawn(slots, probabilities, torch.cat(weights), *shared, origins=torch.cat(numbers))

    def probabilities(self, slots: Tensor, stored: Stored) -> Tensor:
        shares = self.shares.current
        each = [share * self.selectors[name].probabilities(slots, stored) for name, share in shares.items() if share]
        return torch.stack(each).sum(dim=0)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        """Return what each selector asks for, ``(n, selectors)``."""
        return torch.stack([part.errors_of(td_errors, scores) for part in self.selectors.values()], dim=1)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        for part, errors in zip(self.selectors.values(), td_errors.unbind(dim=1), strict=True):
            part.update(slots, errors)

    def anneal(self, progress: float) -> None:
        super().anneal(progress)
        self.shares.anneal(progress)

    def statistics(self) -> dict[str, float]:
        """Return what describes each selector, under its name."""
        found = {name: part.statistics() for name, part in self.selectors.items()}
        return {f"{name}_{number}": value for name, values in found.items() for number, value in values.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"selectors": super().state_dict(), "shares": self.shares.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state["selectors"])
        self.shares.load_state_dict(state["shares"])


def _actor_weights(parts: list[Drawn]) -> Tensor | None:
    """Return the actor's weights of all rows, 1 where a selector has none; None where none has any."""
    if all(part.actor_weights is None for part in parts):
        return None
    ones = [torch.ones_like(part.probabilities) for part in parts]
    return torch.cat(
        [one if part.actor_weights is None else part.actor_weights for part, one in zip(parts, ones, strict=True)]
    )


def _critic_loss(parts: list[Drawn]) -> CriticLoss | None:
    """Return the critics' losses of all rows as one; None where no selector has one of its own."""
    if all(part.critic_loss is None for part in parts):
        return None
    return ByRows(tuple((len(part.slots), part.critic_loss) for part in parts))
