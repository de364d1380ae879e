"""Prioritized selection by what can still be learned of a row."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from interreplay.learning.update import REDUCIBLE_LOSS
from interreplay.selection.prioritized import Prioritized


class Reducible(Prioritized):
    """`Prioritized` by p_i = max(0, L_online − L_target) + ε in place of |δ_i| + ε.

    Sujit et al. 2022, arXiv:2208.10483. Both are squared TD errors at (s, a), means over the critics; the second has
    the target networks' own value of (s, a). A row whose error is noise is as wrong for both, and falls back.
    """

    scores_wanted = frozenset({REDUCIBLE_LOSS})
    needs = frozenset({REDUCIBLE_LOSS})

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        if REDUCIBLE_LOSS not in scores:
            raise ValueError(
                f"scores hold {sorted(scores)}; expected {REDUCIBLE_LOSS!r}, L_online − L_target of each row"
            )
        return scores[REDUCIBLE_LOSS].clamp(min=0.0)
