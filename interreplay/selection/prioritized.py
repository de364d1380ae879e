"""Prioritized selection by TD errors or by reducible losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.learning.update import REDUCIBLE_LOSS
from interreplay.part import AnnealedPart
from interreplay.selection.base import Selector, SlotStore
from interreplay.selection.sum_tree import SumTree, strata
from interreplay.transitions import as_tensor


class Prioritized(AnnealedPart, Selector):
    """P(i) = p_i^α / Σ p^α with p_i = |δ_i| + ε (Schaul et al. 2016, arXiv:1511.05952).

    Draws are stratified: one from each of n equal parts of the total. Importance weights are (N·P(i))^(−β), divided by
    the largest of the batch. New rows receive the largest raw priority so far.

    Args:
        alpha: Exponent α ≥ 0; 0 is uniform.
        beta: Exponent β at the start of the run, 0 to 1; `anneal` moves it linearly to `final_beta`.
        eps: ε > 0, added to every |δ|.
        final_beta: Exponent β at the end of the run, 0 to 1. If both are 0, there are no importance weights.
    """

    knows_probabilities = True
    supports_priorities = True

    def __init__(self, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6, final_beta: float = 1.0):
        check_number("alpha", alpha, 0)
        check_number("beta", beta, 0, 1)
        check_number("final_beta", final_beta, 0, 1)
        check_number("eps", eps, 0, above_low=True)
        self.alpha = float(alpha)
        self.beta = float(beta)
        self.final_beta = float(final_beta)
        self.eps = float(eps)
        self.largest = 1.0
        self._tree = SumTree(0)
        self._raw = torch.empty(0)

    @property
    def current_beta(self) -> float:
        return self.beta + (self.final_beta - self.beta) * self.progress

    def observe(self, stored: SlotStore, slots: Tensor) -> None:
        if not len(self._raw):
            self._tree = SumTree(stored.capacity)
            self._raw = torch.zeros(stored.capacity)
        self._set(slots, torch.full(slots.shape, self.largest))

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots, probabilities = self._tree.find(strata(size, rng))
        return slots, probabilities.float()

    def probabilities(self, slots: Tensor, stored: SlotStore | None = None) -> Tensor:
        return (self._tree.leaves[slots] / self._tree.total()).float()

    def weights(self, stored: SlotStore, probabilities: Tensor) -> Tensor:
        weights = (len(stored) * probabilities) ** -self.current_beta
        return weights / weights.max()

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.set_priorities(slots, td_errors.detach().abs() + self.eps)

    def priorities(self, slots: Tensor) -> Tensor:
        return self._raw[slots]

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities p_i > 0 of rows; for duplicate slots, the last value is used.

        Raises:
            ValueError: If a priority is NaN, infinite or too large for float32.
        """
        if not len(slots):
            return
        raw = raw.to(self._raw)
        largest = float(raw.max())
        if not math.isfinite(largest):
            raise ValueError(f"td_errors hold {largest}; expected finite float32 numbers")
        self._raw.numpy()[slots.numpy()] = raw.numpy()  # for duplicates numpy keeps the last value, torch any
        raw = self._raw.index_select(0, slots)
        self._set(slots, raw)
        self.largest = max(self.largest, float(raw.max()))

    def _set(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities; duplicate slots must have equal values."""
        self._tree.set(slots, raw.double() ** self.alpha)
        self._raw.index_copy_(0, slots, raw)

    def nbytes(self, capacity: int, features: int) -> int:
        return SumTree.nbytes(capacity) + 4 * capacity

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict() | {"largest": self.largest}
        if len(self._raw):
            state |= {"raw": self._raw, "levels": list(self._tree.levels)}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.largest = float(state["largest"])
        self._tree = SumTree(0)
        self._raw = torch.empty(0)
        if "raw" in state:
            self._raw = as_tensor(state["raw"]).clone()
            self._tree = SumTree(len(self._raw))
            self._tree.levels = [as_tensor(level).clone() for level in state["levels"]]
            self._tree.set_powers(self._raw, self.alpha)


class Reducible(Prioritized):
    """`Prioritized` with p_i = max(0, L_online − L_target) + ε (Sujit et al. 2022, arXiv:2208.10483).

    Both losses are squared TD errors at (s, a), averaged over the critics; L_target uses the target networks' value of
    (s, a). If the error of a row is noise, both losses are equally large and its priority is low. The arguments are
    those of `Prioritized`; the method `ReLo` uses α = .5. The authors' code (github.com/shivakanthsujit/reducible-loss)
    has this α for SAC and Rainbow, .6 for DQN, and ε = 1e-5; for Rainbow, a difference x of losses becomes x + 1 if
    x >= 0, and exp(x) otherwise.
    """

    scores_wanted = frozenset({REDUCIBLE_LOSS})
    needs = frozenset({REDUCIBLE_LOSS})

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        if REDUCIBLE_LOSS not in scores:
            raise ValueError(f"scores hold {sorted(scores)}; expected {REDUCIBLE_LOSS!r}, L_online − L_target per row")
        return scores[REDUCIBLE_LOSS].clamp(min=0.0)
