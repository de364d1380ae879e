"""Candidates: more rows than a batch needs, of which a ranking keeps some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.selection.base import Selector, Stored
from interreplay.storage.columns import part_of
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation, join_parts, observation_parts

HowFar = Callable[[Any, Tensor], Tensor]
"""``(stored, slots (m,)) -> (m,)``: how far each candidate is, from whatever a ranking is about."""


class FromCandidates(Selector):
    """Draws ⌊λn⌋ candidates uniformly, with replacement; a subclass ranks them by how far they are, and keeps n.

    λ starts at `multiplier` and is 1 at the end of the run, where the candidates are the batch: uniform replay.
    What is reported as the probability of a row is that of one candidate, 1/N: how likely the ranking keeps it
    could only be told by ranking every row.

    Args:
        multiplier: λ at the start of the run, 1 or more.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha; 1 is linear, larger ones fall later.
        how_far: Distances of candidates, in place of what a subclass measures on stored rows.

    Raises:
        ValueError: When an argument is out of range.
    """

    def __init__(self, multiplier: float, alpha: float = 1.0, how_far: HowFar | None = None):
        check_number("multiplier", multiplier, 1)
        check_number("alpha", alpha, 0, above_low=True)
        self.multiplier, self.alpha = float(multiplier), float(alpha)
        self.progress = 0.0
        self._how_far = how_far

    @property
    def current_multiplier(self) -> float:
        """λ now."""
        return self.multiplier - (self.multiplier - 1.0) * self.progress**self.alpha

    def anneal(self, progress: float) -> None:
        self.progress = min(max(float(progress), 0.0), 1.0)

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        count = max(size, int(self.current_multiplier * size))
        slots = torch.from_numpy(rng.integers(0, len(stored), count)).to(stored.device)
        if count > size:
            slots = self.keep(stored, slots, size)
        return slots, torch.full((size,), 1.0 / len(stored), device=stored.device)

    def keep(self, stored: Stored, slots: Tensor, size: int) -> Tensor:
        """Return which `size` of the more candidates ``(m,)`` to keep: slots ``(size,)``."""
        raise NotImplementedError

    def distances(self, stored: Stored, slots: Tensor) -> Tensor:
        """Return how far each of the candidates ``(m,)`` is."""
        return (self.measured if self._how_far is None else self._how_far)(stored, slots)

    def measured(self, storage: Any, slots: Tensor) -> Tensor:
        """Return how far each of the stored rows in `slots` ``(m,)`` is, where no callable says so."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = float(state["progress"])


def ascending(values: Tensor) -> Tensor:
    """Return the order ``(n,)`` that sorts `values` ``(n,)``, equal ones as they are; numpy is the faster one here."""
    if values.device.type != "cpu":
        return torch.argsort(values, stable=True)
    return torch.from_numpy(np.argsort(values.numpy(), kind="stable"))


def observations(storage: Storage, slots: Tensor, beside: str | None = None) -> tuple[Observation, Tensor | None]:
    """Return stored observations of `slots` ``(n,)`` and the column `beside` them, without the rest of the rows."""
    observed = storage.chain.observed
    found = storage.records.take(slots, observed if beside is None else [*observed, beside])
    whole = storage.restore_frames(join_parts({part_of(name): found[name] for name in observed}))
    return whole, found[beside] if beside is not None else None


def arrived(storage: Storage) -> Observation:
    """Return where the agent arrived last: the next observation ``(1, ...)`` of the newest row, one step on."""
    chain = storage.chain
    link = int(storage.column("link")[(storage.written - 1) % storage.capacity])
    records, place = (chain.records, link) if link >= 0 else (chain.tails.records, -1 - link)
    return storage.restore_frames(
        join_parts({part_of(name): records.column(name)[place : place + 1] for name in chain.observed})
    )


def flat(values: Observation) -> Tensor:
    """Return observations, or what a network made of them, as float ``(n, d)``; named parts side by side by name."""
    parts = observation_parts(values)
    columns = [parts[name].flatten(1) if parts[name].dim() > 1 else parts[name].unsqueeze(1) for name in sorted(parts)]
    columns = [column if column.is_floating_point() else column.float() for column in columns]
    return columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)
