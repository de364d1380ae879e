"""The contract of selectors: which stored rows become anchors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.losses import CriticLoss
from interreplay.part import Part, wrong_answer


class Stored(Protocol):
    """What a selector draws from: a ring of rows, or of anything else that is written in turn.

    Attributes:
        capacity: Number of slots.
        written: Number of rows ever written; in a ring, the newest lies in slot (written − 1) mod capacity.
        device: Torch device of what is drawn.
    """

    capacity: int
    written: int
    device: torch.device

    def __len__(self) -> int:
        """Return the number of rows stored now, in the first slots."""
        ...

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Return the write numbers of the rows that lie in `slots` now, the shape of `slots`, int64."""
        ...


class Drawn(NamedTuple):
    """What a selector drew.

    Attributes:
        slots: ``(n,)`` int64.
        probabilities: With which each was drawn ``(n,)``.
        weights: Importance weights ``(n,)`` of the critics' loss; None for what `Selector.weights` makes of the
            probabilities.
        actor_weights: Weights ``(n,)`` of the losses of the actor and the temperature, or None for equal ones.
        critic_loss: The critics' loss of these rows, or None for the algorithm's own.
        targets: What the critics are to learn of the rows ``(n,)``, where drawing them has computed it.
        origins: Numbers ``(n,)`` of the selectors that drew them, None where there is but one.
    """

    slots: Tensor
    probabilities: Tensor
    weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None
    targets: Tensor | None = None
    origins: Tensor | None = None


class Selector(Part, ABC):
    """Draws anchors. One whose rows are `independent_rows` says so.

    Attributes:
        knows_probabilities: Whether `probabilities` can be asked for.
        supports_priorities: Whether rows have priorities, to be read and set.
        by_write_order: Whether it finds rows by when they were written, which takes a ring.
        eps: Smallest priority, where there are any.
        critic_loss: The critics' loss of all rows that it draws, or None for the algorithm's own.
    """

    independent_rows = False
    knows_probabilities: bool = False
    supports_priorities: bool = False
    by_write_order: bool = False
    eps: float = 0.0
    critic_loss: CriticLoss | None = None

    @abstractmethod
    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw `size` stored rows.

        Returns:
            Slots ``(size,)`` int64 and the probability ``(size,)`` with which each was drawn.
        """

    def draw(self, stored: Stored, size: int, rng: np.random.Generator) -> Drawn:
        """Draw `size` stored rows, with all that there is to say of each; `select` and no more by default."""
        selected = self.select(stored, size, rng)
        if not isinstance(selected, tuple) or len(selected) != 2:
            raise wrong_answer(self, selected, tuple, " of two, slots and probabilities")
        return Drawn(*selected, critic_loss=self.critic_loss)

    def evict(self, storage: Stored, slots: Tensor) -> None:
        """Take leave of the rows in `slots` ``(n,)``, each once, oldest first, which are about to be overwritten."""

    def observe(self, storage: Stored, slots: Tensor) -> None:
        """Take note of rows that were just stored in `slots` ``(n,)``, each slot once, in write order."""

    def weights(self, stored: Stored, probabilities: Tensor) -> Tensor:
        """Return importance weights ``(n,)`` of rows drawn with `probabilities` ``(n,)``; all 1 by default."""
        return torch.ones_like(probabilities)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        """Return what `update` is to get ``(n,)``: the TD errors, or one of the scores that came with them."""
        return td_errors

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        """Take note of the TD errors ``(n,)`` of the rows in `slots` ``(n,)``."""

    def probabilities(self, slots: Tensor, stored: Stored) -> Tensor:
        """Return the probability ``(n,)``, float32, with which a draw gives each of the rows in `slots` ``(n,)``."""
        raise NotImplementedError(f"{type(self).__name__} does not know the probability of a row")

    def priorities(self, slots: Tensor) -> Tensor:
        """Return raw priorities ``(n,)`` of the rows in `slots` ``(n,)``."""
        raise NotImplementedError(f"{type(self).__name__} keeps no priorities")

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities ``(n,)`` > 0 of the rows in `slots` ``(n,)``; of one that comes twice the last stays."""
        raise NotImplementedError(f"{type(self).__name__} keeps no priorities")
