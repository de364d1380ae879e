"""Selection from a large batch by the errors of now."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.learning.update import MEAN_ERROR, SCORING, TARGET
from interreplay.part import Context, Score
from interreplay.selection.base import Drawn, Selector, Stored
from interreplay.storage.ring import Storage


class LargeBatch(Selector):
    """Of m·n uniform rows n with P ∝ |δ|, under the networks of now, each weighed by mean|δ| / |δ_i|.

    Lahire et al. 2022, arXiv:2110.01528. Nothing is stale and nothing is stored: the errors are computed for the
    candidates of each batch. |δ| is the mean over the critics of their TD errors' sizes, and critics and actor learn
    from one batch with these weights, so that in expectation every gradient is that of uniform replay; the authors draw
    a batch for each critic, and a uniform one for the actor. The targets that the errors were computed with are those
    of the update that follows. Rows are drawn with replacement, the same one more often
    where its error is large. The probability that is reported is that of a candidate.

    Args:
        multiplier: m, 1 or more; 1 is uniform.
        score: Rows ``(n, ...)`` and names of scores to these ``(n,)``; an algorithm sets it with `connect`.

    Raises:
        ValueError: When `multiplier` is out of range.
    """

    needs = frozenset({SCORING})

    def __init__(self, multiplier: float = 4.0, score: Score | None = None):
        check_number("multiplier", multiplier, 1)
        self.multiplier, self._score = float(multiplier), score

    def connect(self, context: Context) -> None:
        if context.score is not None:
            self._score = context.score

    def draw(self, stored: Stored, size: int, rng: np.random.Generator) -> Drawn:
        count = max(size, int(self.multiplier * size))
        slots = torch.from_numpy(rng.integers(0, len(stored), count)).to(stored.device)
        probabilities = torch.full((size,), 1.0 / len(stored), device=stored.device)
        if count == size:
            return Drawn(slots, probabilities)
        errors, targets = self.errors(stored, slots)
        sums = errors.cumsum(0)
        found = torch.searchsorted(sums, torch.from_numpy(rng.random(size)).to(sums) * sums[-1], right=True)
        kept = found.clamp_(max=count - 1)
        weights = (sums[-1] / count / errors.index_select(0, kept)).float()
        targets = None if targets is None else targets.index_select(0, kept)
        return Drawn(slots.index_select(0, kept), probabilities, weights, weights, targets=targets)

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return self.draw(stored, size, rng)[:2]

    def errors(self, stored: Stored, slots: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return |δ| > 0 of the rows in `slots` ``(m,)``, float64 ``(m,)``, and their q_t ``(m,)`` where it is known.

        Raises:
            ValueError: When there is nobody to ask.
        """
        if self._score is None:
            raise ValueError("nobody scores rows; expected an algorithm that is connected, or the argument score")
        assert isinstance(stored, Storage)
        scores = self._score(self.view.read(stored, slots), frozenset({MEAN_ERROR, TARGET}))
        errors = scores[MEAN_ERROR].to(stored.device).double()
        return errors.clamp_(min=torch.finfo(torch.float32).tiny), scores.get(TARGET)
