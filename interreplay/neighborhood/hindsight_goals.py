"""Hindsight goals: goals that the anchor's episode achieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import NO_NEIGHBOR, Neighborhood, Neighbors
from interreplay.neighborhood.trajectories import Trajectories
from interreplay.part import GOALS, MISSING
from interreplay.storage.ring import Storage

STRATEGIES = ("future", "final", "episode")
LAST = np.nextafter(1.0, 0.0)


class HindsightGoals(Neighborhood):
    """The achieved goal after one step of the anchor's own episode.

    The step is, uniformly, the anchor's own or a later one (``"future"``), the episode's last one (``"final"``), or
    any one (``"episode"``); Andrychowicz et al. 2017, sections 3.3 and 4.5, arXiv:1707.01495. Only stored steps count.

    With `partners`, the neighbors are the m partners that this neighborhood gathers, together with goals for the
    anchor and for each partner. Missing and synthetic partners have no episode and get the anchor's goal.

    Args:
        strategy: ``"future"``, ``"final"`` or ``"episode"``.
        partners: Gathers the rows that anchors are blended with. None disables blending.

    Raises:
        ValueError: If the strategy is unknown, or `partners` is not a neighborhood.
    """

    follows_episodes = True

    def __init__(self, strategy: str = "future", partners: Neighborhood | None = None):
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(map(repr, STRATEGIES))}")
        if partners is not None and not isinstance(partners, Neighborhood):
            raise ValueError(
                f"the neighborhood is {partners!r}; expected an object of a class derived from Neighborhood"
            )
        self.strategy = strategy
        self.partners = partners
        self._inner = {} if partners is None else {"partners": partners}
        self.trajectories = Trajectories()

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return m partners per row, with ``extras[GOALS]`` ``(n, 1 + m, d)``; m is 0 without partners.

        With partners, ``extras[MISSING]`` ``(n,)`` marks the rows without one.
        """
        if self.partners is None:
            goals = self.goals(storage, slots, rng).unsqueeze(1)
            return Neighbors(slots.new_empty(len(slots), 0), extras={GOALS: goals})
        found = self.partners.gather(storage, slots, rng)
        rows = torch.cat([slots.unsqueeze(1), found.stored_slots(slots)], dim=1)
        goals = self.goals(storage, rows.flatten(), rng).unflatten(0, rows.shape)
        stored = (found.slots >= 0).view(found.slots.shape + (1,) * (goals.dim() - 2))
        goals = torch.cat([goals[:, :1], torch.where(stored, goals[:, 1:], goals[:, :1])], dim=1)
        missing = (found.slots[:, :1] == NO_NEIGHBOR).any(dim=1)
        return replace(found, extras={**found.extras, GOALS: goals, MISSING: missing})

    def goals(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return goals ``(n, d)`` that the episodes of the rows in `slots` ``(n,)`` achieved."""
        return storage.chain.next_column(self.steps(storage, slots, rng), "obs.achieved_goal")

    def steps(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return slots ``(n,)`` of the steps that the strategy draws for the rows in `slots` ``(n,)``."""
        self.trajectories.follow(storage)
        draws = np.full(len(slots), LAST)
        if self.strategy != "final":
            draws = rng.random(len(slots))
        found = self.trajectories.rows(slots, draws, past=self.strategy == "episode")
        return torch.from_numpy(found)

    def inner_parts(self) -> Mapping[str, Neighborhood]:
        return self._inner

    def nbytes(self, capacity: int, features: int) -> int:
        """Return the bytes of the trajectories, with half-empty blocks, and of the partners."""
        return 24 * capacity + super().nbytes(capacity, features)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trajectories = Trajectories()  # rebuilt from the storage
        super().load_state_dict(state)
