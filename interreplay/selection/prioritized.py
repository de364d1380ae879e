"""Prioritized selection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.selection.base import Selector, Stored
from interreplay.selection.sum_tree import SumTree, keep_last
from interreplay.storage.row_table import shares_numpy
from interreplay.transitions import as_tensor


class Prioritized(Selector):
    """P(i) = p_i^α / Σ p^α with p_i = |δ_i| + ε (Schaul et al. 2016, arXiv:1511.05952).

    Draws are stratified: one from each of n equal parts of the total. Importance weights are
    (N·P(i))^(−β), divided by the largest of the batch. New rows get the largest raw priority so far.

    Args:
        alpha: Exponent α ≥ 0; 0 is uniform.
        beta: Exponent β at the start of the run, 0 to 1; `anneal` moves it linearly to `final_beta`.
        eps: ε > 0, added to every |δ|.
        final_beta: Exponent β at the end of the run, 0 to 1; with both 0 there are no importance weights.
    """

    knows_probabilities = True
    supports_priorities = True

    def __init__(self, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6, final_beta: float = 1.0):
        check_number("alpha", alpha, 0)
        check_number("beta", beta, 0, 1)
        check_number("final_beta", final_beta, 0, 1)
        check_number("eps", eps, 0, above_low=True)
        self.alpha, self.beta, self.final_beta, self.eps = float(alpha), float(beta), float(final_beta), float(eps)
        self.progress = 0.0
        self.largest = 1.0
        self._tree: SumTree | None = None
        self._raw = torch.empty(0)

    @property
    def current_beta(self) -> float:
        return self.beta + (self.final_beta - self.beta) * self.progress

    def anneal(self, progress: float) -> None:
        self.progress = min(max(float(progress), 0.0), 1.0)

    def _prepare(self, stored: Stored) -> SumTree:
        if self._tree is None:
            self._tree = SumTree(stored.capacity, stored.device)
            self._raw = torch.zeros(stored.capacity, dtype=torch.float32, device=stored.device)
        if self._raw.device != stored.device:  # a state was loaded
            self._raw = self._raw.to(stored.device)
            self._tree.levels = [level.to(stored.device) for level in self._tree.levels]
        return self._tree

    def observe(self, stored: Stored, slots: Tensor) -> None:
        self._prepare(stored)
        self._set(slots, torch.full(slots.shape, self.largest, device=stored.device))

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        strata = torch.from_numpy((np.arange(size) + rng.random(size)) / size)
        slots, probabilities = self._prepare(stored).find(strata.to(stored.device))
        return slots, probabilities.float()

    def probabilities(self, slots: Tensor, stored: Stored | None = None) -> Tensor:
        """Return p(i) of the rows in `slots` ``(n,)``, float32 ``(n,)``."""
        assert self._tree is not None
        return (self._tree.leaves[slots] / self._tree.total()).float()

    def weights(self, stored: Stored, probabilities: Tensor) -> Tensor:
        weights = (len(stored) * probabilities) ** -self.current_beta
        return weights / weights.max()

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.set_priorities(slots, td_errors.detach().abs() + self.eps)

    def priorities(self, slots: Tensor) -> Tensor:
        """Return raw priorities p_i of the rows in `slots` ``(n,)``, float32 ``(n,)``."""
        return self._raw[slots]

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities p_i > 0 of rows; of a slot that comes twice the last value stays.

        Raises:
            ValueError: When a priority is NaN or infinite.
        """
        if not len(slots):
            return
        largest = float(raw.max())
        if not math.isfinite(largest):
            raise ValueError(f"td_errors hold {largest}; expected finite numbers")
        raw = raw.to(self._raw)
        if shares_numpy(raw.device):
            self._raw.numpy()[slots.numpy()] = raw.numpy()  # of equal indices, numpy keeps the last, torch any
            raw = self._raw.index_select(0, slots)
        else:
            last = keep_last(slots)
            slots, raw = slots[last], raw[last]
        self._set(slots, raw)
        self.largest = max(self.largest, float(raw.max()))

    def _set(self, slots: Tensor, raw: Tensor) -> None:
        """Set priorities of rows; where a slot comes twice, so does its priority."""
        assert self._tree is not None
        self._tree.set(slots, raw.double() ** self.alpha)
        self._raw.index_copy_(0, slots, raw)

    def nbytes(self, capacity: int, features: int) -> int:
        return SumTree.nbytes(capacity) + 4 * capacity

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"largest": self.largest, "progress": self.progress}
        if self._tree is not None:
            state |= {"raw": self._raw, "levels": list(self._tree.levels)}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.largest, self.progress = float(state["largest"]), float(state["progress"])
        self._tree, self._raw = None, torch.empty(0)
        if "raw" in state:
            self._raw = as_tensor(state["raw"]).clone()
            self._tree = SumTree(len(self._raw), self._raw.device)
            self._tree.levels = [as_tensor(level).clone() for level in state["levels"]]
            self._follow_alpha()

    def _follow_alpha(self) -> None:
        """Let the tree of a loaded state follow from its raw priorities by the α of now, which may be another."""
        assert self._tree is not None
        stored = (self._raw > 0).nonzero().squeeze(1)
        wanted = self._raw[stored].double() ** self.alpha
        if not torch.allclose(self._tree.leaves[stored], wanted, rtol=1e-12, atol=0.0):  # powers round by their number
            self._tree.set(stored, wanted)
