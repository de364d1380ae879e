"""The contract of selectors, which draw the anchors of a batch from the stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.losses import CriticLoss
from interreplay.part import Part, result_error


class SlotStore(Protocol):
    """Store of rows in numbered slots, from which selectors draw, such as a ring buffer.

    Attributes:
        capacity: Number of slots.
        written: Number of rows ever written. In a ring, the newest row is in slot (written − 1) mod capacity.
    """

    capacity: int
    written: int

    def __len__(self) -> int:
        """Return the number of stored rows, which occupy the first slots."""
        ...

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Return the write numbers (int64) of the rows in `slots`, with the same shape."""
        ...


class Draw(NamedTuple):
    """Result of drawing n rows.

    Attributes:
        slots: ``(n,)`` int64.
        probabilities: Probability ``(n,)`` of drawing each row.
        weights: Importance weights ``(n,)`` of the critic loss; None to compute them by `Selector.weights`.
        actor_weights: Weights ``(n,)`` of the actor and temperature losses, or None for equal weights.
        critic_loss: Critic loss of these rows, or None for the algorithm's default.
        targets: Critic targets ``(n,)`` if drawing the rows has computed them.
        origins: Index ``(n,)`` of the selector that drew each row, or None for a single selector.
    """

    slots: Tensor
    probabilities: Tensor
    weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None
    targets: Tensor | None = None
    origins: Tensor | None = None


class Selector(Part):
    """Draws anchors. Subclasses that draw rows independently set `independent_rows`.

    Implement `select` if rows are drawn one by one, and `draw` if a batch is composed as a whole.

    Attributes:
        knows_probabilities: Whether `probabilities` is implemented.
        supports_priorities: Whether rows have priorities that can be read and set.
        by_write_order: Whether it locates rows by write order, which requires a ring buffer.
        eps: Smallest priority, if there are priorities.
        critic_loss: Critic loss of all rows that it draws, or None for the algorithm's default.
    """

    independent_rows = False
    knows_probabilities: bool = False
    supports_priorities: bool = False
    by_write_order: bool = False
    eps: float = 0.0
    critic_loss: CriticLoss | None = None

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw `size` stored rows.

        Returns:
            Slots ``(size,)`` int64 and the probability ``(size,)`` of drawing each row.
        """
        raise NotImplementedError(f"{type(self).__name__} implements neither select nor draw")

    def draw(self, stored: SlotStore, size: int, rng: np.random.Generator) -> Draw:
        """Draw `size` stored rows with weights, losses and targets; by default the result of `select`."""
        selected = self.select(stored, size, rng)
        if not isinstance(selected, tuple) or len(selected) != 2:
            raise result_error(self, selected, tuple, " of two, slots and probabilities")
        return Draw(*selected, critic_loss=self.critic_loss)

    def weights(self, stored: SlotStore, probabilities: Tensor) -> Tensor:
        """Return importance weights ``(n,)`` of rows drawn with `probabilities` ``(n,)``; 1 by default."""
        return torch.ones_like(probabilities)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        """Return the values ``(n,)`` to pass to `update`: the TD errors, or one of the scores."""
        return td_errors

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        """Process the TD errors ``(n,)`` of the rows in `slots` ``(n,)``."""

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        """Return the probability ``(n,)``, float32, of drawing each of the rows in `slots` ``(n,)``."""
        raise NotImplementedError(f"{type(self).__name__} does not compute probabilities of rows")

    def priorities(self, slots: Tensor) -> Tensor:
        """Return raw priorities ``(n,)`` of the rows in `slots` ``(n,)``."""
        raise NotImplementedError(f"{type(self).__name__} has no priorities")

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities ``(n,)`` > 0 of the rows in `slots` ``(n,)``; for duplicates, the last value is used."""
        raise NotImplementedError(f"{type(self).__name__} has no priorities")


class Uniform(Selector):
    """Draws all stored rows with equal probability, with replacement (Lin 1992)."""

    independent_rows = True
    knows_probabilities = True

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots = torch.from_numpy(rng.integers(0, len(stored), size))
        return slots, torch.full((size,), 1.0 / len(stored))

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        return torch.full(slots.shape, 1.0 / len(stored))
