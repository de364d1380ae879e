"""Read views: read the rows of a storage as single steps or as n-step transitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions, map_observation, observation_parts


class ReadView(ABC):
    """A way to read the rows of a storage; views with equal settings are equal.

    Attributes:
        n_step: Maximum number of steps of a row.
        gamma: Discount factor per step.
    """

    n_step: int
    gamma: float

    @abstractmethod
    def read(self, storage: Storage, slots: Tensor) -> Transitions:
        """Return the transitions in `slots`, int64 of any shape, with ``discounts``.

        Raises:
            IndexError: If a slot is negative or beyond the capacity.
        """

    def read_with_neighbors(self, storage: Storage, slots: Tensor, others: Tensor) -> tuple[Transitions, Transitions]:
        """Return `read` of slots ``(n,)`` and of others ``(n, k)``."""
        return self.read(storage, slots), self.read(storage, others)

    @abstractmethod
    def vectors(self, storage: Storage, slots: np.ndarray) -> np.ndarray:
        """Return [s; a; r; s'] of the rows in `slots` ``(n,)``, flattened: ``(n, D)`` in the widest of their dtypes."""

    @abstractmethod
    def spans(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return the current number of env steps ``(n,)``, 1 to `n_step`, of the rows in `slots` ``(n,)``."""

    @abstractmethod
    def mature(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return which rows in `slots` ``(n,)`` cannot be changed by rows added later, bool ``(n,)``."""


@dataclass(frozen=True)
class OneStep(ReadView):
    """Rows as they were added.

    Attributes:
        gamma: Discount factor per step.
    """

    gamma: float = 0.99
    n_step = 1

    def read(self, storage: Storage, slots: Tensor) -> Transitions:
        return storage.read(slots, self.gamma)

    def read_with_neighbors(self, storage: Storage, slots: Tensor, others: Tensor) -> tuple[Transitions, Transitions]:
        return storage.read_with_neighbors(slots, others, self.gamma)

    def vectors(self, storage: Storage, slots: np.ndarray) -> np.ndarray:
        return storage.chain.vectors(slots)

    def spans(self, storage: Storage, slots: Tensor) -> Tensor:
        return torch.ones_like(slots)

    def mature(self, storage: Storage, slots: Tensor) -> Tensor:
        return torch.ones_like(slots, dtype=torch.bool)


@dataclass(frozen=True)
class NStep(ReadView):
    """n-step transitions, computed from the links between rows at each read (Sutton & Barto 2018, section 7.1).

    Each transition follows up to n − 1 links and sums discounted rewards. It has fewer steps at the end of its episode,
    at a gap, and at the newest row. `next_obs`, `terminated` and `truncated` are taken from the last step;
    ``discounts`` are γ^m·(1 − terminated) for m steps.

    Attributes:
        n_step: n.
        gamma: Discount factor γ per step.
    """

    n_step: int
    gamma: float = 0.99

    def read(self, storage: Storage, slots: Tensor) -> Transitions:
        flat = slots.reshape(-1)
        storage.check_slots(flat)
        rows = storage.read_records(flat, self.gamma)
        last = flat.clone()
        rewards = rows.rewards.clone()
        factor = torch.ones_like(rewards)
        walking = torch.arange(len(flat))
        for _ in range(self.n_step - 1):
            following = storage.successor(last[walking])
            walking = walking[following >= 0]
            following = following[following >= 0]
            if not len(walking):
                break
            last[walking] = following
            factor[walking] *= self.gamma
            rewards[walking] += factor[walking] * storage.column("rewards").index_select(0, following)
        end = storage.read_records(last, self.gamma)
        next_obs = map_observation(Tensor.contiguous, end.next_obs)
        rows = rows.replace(
            obs=storage.restore_frames(rows.obs),
            rewards=rewards,
            next_obs=storage.restore_frames(next_obs),
            terminated=end.terminated,
            truncated=end.truncated,
            discounts=end.discounts * factor,
        )
        if slots.dim() == 1:
            return rows
        return rows.map(lambda column: column.reshape(slots.shape + column.shape[1:]))

    def vectors(self, storage: Storage, slots: np.ndarray) -> np.ndarray:
        rows = self.read(storage, torch.from_numpy(slots))
        parts = [*observation_parts(rows.obs).values(), rows.actions, rows.rewards]
        parts += observation_parts(rows.next_obs).values()
        return np.concatenate([part.numpy().reshape(len(slots), -1) for part in parts], axis=1)

    def spans(self, storage: Storage, slots: Tensor) -> Tensor:
        return self._walk(storage, slots)[0]

    def mature(self, storage: Storage, slots: Tensor) -> Tensor:
        steps, last = self._walk(storage, slots)
        ended = storage.column("terminated")[last] | storage.column("truncated")[last]
        return ended | (steps >= self.n_step)

    def _walk(self, storage: Storage, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of steps ``(n,)`` that begin with the rows in `slots` ``(n,)``, and their last slots."""
        steps = torch.ones_like(slots)
        last = slots
        for _ in range(self.n_step - 1):
            following = storage.successor(last)
            steps += following >= 0
            last = torch.where(following >= 0, following, last)
        return steps, last


def read_view(n_step: int, gamma: float) -> ReadView:
    """Return the view of n steps.

    Raises:
        ValueError: If n is not an integer of 1 or more, or γ is not a number from 0 to 1.
    """
    check_number("n_step", n_step, 1, whole=True)
    check_number("gamma", gamma, 0, 1)
    if n_step == 1:
        return OneStep(float(gamma))
    return NStep(n_step, float(gamma))
