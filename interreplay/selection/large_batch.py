"""Selection from a large batch by current TD errors."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import PartError, check_number
from interreplay.learning.update import MEAN_ERROR, SCORING, TARGET
from interreplay.part import Context, Score, check_tensor
from interreplay.selection.base import Draw, Selector, SlotStore
from interreplay.storage.ring import Storage


class LargeBatch(Selector):
    """Draws n of m·n uniform rows with P ∝ |δ| under the current networks, weighted by mean|δ| / |δ_i|.

    Lahire et al. 2022, arXiv:2110.01528. The errors are computed for the candidates of each batch, so nothing is stored
    or stale. |δ| is the mean absolute TD error over the critics. Critics and actor learn from one batch with these
    weights, so the expected gradients equal uniform replay's. (The authors draw one batch per critic and a uniform
    batch for the actor.) The update reuses the targets from which the errors were computed. Rows are drawn with
    replacement. The reported probability is that of a candidate.

    Args:
        multiplier: m, 1 or more; 1 is uniform.
        score: Maps rows ``(n, ...)`` and names of scores to the scores ``(n,)``. The algorithm sets it by `connect`.

    Raises:
        ValueError: If `multiplier` is out of range.
    """

    needs = frozenset({SCORING})

    def __init__(self, multiplier: float = 4.0, score: Score | None = None):
        check_number("multiplier", multiplier, 1)
        self.multiplier = float(multiplier)
        self._score = score
        self._is_user_score = score is not None

    def connect(self, context: Context) -> None:
        if context.score is not None:
            self._score = context.on_rows(context.score)
            self._is_user_score = False

    def draw(self, stored: SlotStore, size: int, rng: np.random.Generator) -> Draw:
        count = max(size, int(self.multiplier * size))
        slots = torch.from_numpy(rng.integers(0, len(stored), count))
        probabilities = torch.full((size,), 1.0 / len(stored))
        if count == size:
            return Draw(slots, probabilities)
        errors, targets = self.errors(stored, slots)
        sums = errors.cumsum(0)
        points = torch.from_numpy(rng.random(size)).to(sums) * sums[-1]
        kept = torch.searchsorted(sums, points, right=True).clamp_(max=count - 1)
        weights = (sums[-1] / count / errors.index_select(0, kept)).float()
        if targets is not None:
            targets = targets.index_select(0, kept)
        slots = slots.index_select(0, kept)
        return Draw(slots, probabilities, weights, actor_weights=weights, targets=targets)

    def errors(self, stored: SlotStore, slots: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return |δ| > 0 of the rows in `slots` ``(m,)``, float64 ``(m,)``, and their targets ``(m,)`` if available.

        Raises:
            ValueError: If there is no score function.
            PartError: If a user's function returned other scores.
        """
        if self._score is None:
            raise ValueError("there is no score function; expected a connected algorithm or the argument score")
        assert isinstance(stored, Storage)
        scores = self._score(self.view.read(stored, slots), frozenset({MEAN_ERROR, TARGET}))
        if self._is_user_score:
            check_scores(scores, len(slots))
        errors = scores[MEAN_ERROR].double()
        return errors.clamp_(min=torch.finfo(torch.float32).tiny), scores.get(TARGET)


def check_scores(scores: Any, count: int) -> None:
    """Check the scores that a user's function returned for `count` rows.

    Raises:
        PartError: The mean errors are missing or not `count` finite numbers of at least 0, or the targets have another
            shape.
    """
    if not isinstance(scores, Mapping) or MEAN_ERROR not in scores:
        raise PartError(f"score returned a {type(scores).__name__} without {MEAN_ERROR!r}; expected a mapping with it")
    check_tensor("score", repr(MEAN_ERROR), scores[MEAN_ERROR], (count,), limits=(0.0, sys.float_info.max))
    if scores.get(TARGET) is not None:
        check_tensor("score", repr(TARGET), scores[TARGET], (count,))
