"""Future: what an anchor's episode achieved, for hindsight to aim at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import Neighborhood, Neighbors
from interreplay.neighborhood.trajectories import Trajectories
from interreplay.part import GOALS, Context
from interreplay.storage.columns import Columns
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage

STRATEGIES = ("future", "final", "episode")
LAST = np.nextafter(1.0, 0.0)


class HindsightGoals(Neighborhood):
    """The achieved goal of one step of a row's own episode, after that step.

    ``"future"``: of the row's own step or a later one, each with the same probability; ``"final"``: of the episode's
    last; ``"episode"``: of any (Andrychowicz et al. 2017, §3.3 and §4.5, arXiv:1707.01495). Only what is stored
    counts, of a running episode what there is so far.

    Neighbors are the m partners of a row that another neighborhood gathers, with the goals beside them; a partner that
    is no stored row has no episode and is given the anchor's goal, and so is a missing one. Without another
    neighborhood there are goals alone.

    Args:
        strategy: ``"future"``, ``"final"`` or ``"episode"``.
        partners: Gathers what anchors are blended with; None where nothing is blended.

    Raises:
        ValueError: When the strategy is none of these.
    """

    follows_episodes = True

    def __init__(self, strategy: str = "future", partners: Neighborhood | None = None):
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(map(repr, STRATEGIES))}")
        self.strategy, self.partners = strategy, partners
        self.trajectories = Trajectories()

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return the partners, m per row, with ``extras[GOALS]`` ``(n, 1 + m, d)``; m is 0 without partners."""
        if self.partners is None:
            goals = self.goals(storage, slots, rng).unsqueeze(1)
            return Neighbors(slots.new_empty(len(slots), 0), extras={GOALS: goals})
        found = self.partners.gather(storage, slots, rng)
        rows = torch.cat([slots.unsqueeze(1), found.stored_slots(slots)], dim=1)
        goals = self.goals(storage, rows.flatten(), rng).unflatten(0, rows.shape)
        stored = (found.slots >= 0).view(found.slots.shape + (1,) * (goals.dim() - 2))
        goals = torch.cat([goals[:, :1], torch.where(stored, goals[:, 1:], goals[:, :1])], dim=1)
        return replace(found, extras={**found.extras, GOALS: goals})

    def goals(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return what the episodes of the rows in `slots` ``(n,)`` achieved, ``(n, d)``."""
        return storage.next_observation_part(self.steps(storage, slots, rng), "achieved_goal")

    def steps(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return slots ``(n,)`` of the steps drawn for the rows in `slots` ``(n,)``, by the strategy."""
        self.trajectories.follow(storage)
        draws = np.full(len(slots), LAST) if self.strategy == "final" else rng.random(len(slots))
        return torch.from_numpy(self.trajectories.rows(slots, draws, past=self.strategy == "episode")).to(slots.device)

    # -- a part's other duties: trajectories follow from what is stored, partners may have some ---

    def check(self, columns: Columns) -> None:
        if self.partners is not None:
            self.partners.check(columns)

    def connect(self, context: Context) -> None:
        if self.partners is not None:
            self.partners.connect(context)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.partners is not None:
            self.partners.evict(storage, slots)

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if self.partners is not None:
            self.partners.observe(storage, slots)

    def use_view(self, view: ReadView) -> None:
        super().use_view(view)
        if self.partners is not None:
            self.partners.use_view(view)

    def anneal(self, progress: float) -> None:
        if self.partners is not None:
            self.partners.anneal(progress)

    def statistics(self) -> dict[str, float]:
        """Return what the partners' neighborhood says of itself, for diagnostics."""
        return {} if self.partners is None else self.partners.statistics()

    def nbytes(self, capacity: int, features: int) -> int:
        """Return bytes beside a full storage: of rows block, place and slot in a half-empty block; and the partners."""
        return 24 * capacity + (self.partners.nbytes(capacity, features) if self.partners is not None else 0)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.partners is None else {"partners": self.partners.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trajectories = Trajectories()
        if self.partners is not None:
            self.partners.load_state_dict(state["partners"])
