"""Noise: the stored rows, each number a little off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.part import standard_normal
from interreplay.storage.columns import Columns
from interreplay.synthesis.base import Synthesized, Synthesizer, refuse_without_numbers
from interreplay.synthesis.moments import StoredSpread, parts
from interreplay.transitions import Transitions, join_parts

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Noise(Synthesizer):
    """x + σ·std(x)·ε for every number x of s, a, r and s' of every row, ε ~ N(0, 1) drawn for each.

    The baseline that interpolation has to beat, after the random perturbations of RAD (Laskin et al. 2020,
    arXiv:2004.14990). std(x) is over the rows stored now, one step each also with n-step transitions. Actions are
    clipped to their bounds; flags, discounts and choices, such as Discrete parts, stay. With σ = 0 the rows are the
    stored ones bit for bit.

    Args:
        sigma: σ ≥ 0.
        multiplicative: x·(1 + σε) instead, ε drawn for each number of every row.
        action_low: Lowest action, a number or an array that broadcasts to ``(n, *action_shape)``; buffers of ours
            keep actions scaled to [−1, 1].
        action_high: Highest action.

    Raises:
        ValueError: When σ is negative, or the lowest action is not below the highest.
    """

    uses_neighbors = False

    def __init__(
        self,
        sigma: float = 0.1,
        multiplicative: bool = False,
        action_low: float | np.ndarray = -1.0,
        action_high: float | np.ndarray = 1.0,
    ):
        check_number("sigma", sigma, 0)
        for name, value in (("action_low", action_low), ("action_high", action_high)):
            if not isinstance(value, np.ndarray):
                check_number(name, value)
        if not np.all(np.asarray(action_low) < np.asarray(action_high)):
            raise ValueError(f"action_low is {action_low}; expected less than action_high, {action_high}")
        self.sigma, self.multiplicative = float(sigma), multiplicative
        self.low, self.high = torch.as_tensor(action_low), torch.as_tensor(action_high)
        self.moments = StoredSpread()

    @property
    def measures(self) -> bool:
        """Whether the spread of the stored rows matters."""
        return self.sigma > 0 and not self.multiplicative

    def check(self, columns: Columns) -> None:
        refuse_without_numbers(columns, "perturbed")

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if self.measures:
            self.moments.observe(storage, slots)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.measures:
            self.moments.evict(storage, slots)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        if self.sigma == 0:
            return Synthesized(anchors)
        columns = parts(anchors)
        widths = [column.shape[1] for column in columns.values()]
        noise = standard_normal((len(anchors), sum(widths)), rng, anchors.rewards.device)
        noise *= (self.sigma * self.moments.std()).to(noise) if self.measures else self.sigma
        pieces = zip(columns.items(), noise.split(widths, dim=1), strict=True)
        numbers = [(name, x, e.to(x)) for (name, x), e in pieces if x.is_floating_point()]
        made = {name: torch.addcmul(x, x, e) if self.multiplicative else x + e for name, x, e in numbers}
        return Synthesized(self._rebuilt(anchors, columns | made))

    def _rebuilt(self, anchors: Transitions, flat: dict[str, Tensor]) -> Transitions:
        """Return `anchors` with the numbers of `flat`, as `parts` gave them."""

        def observation(which: str, like: Any) -> Any:
            if not isinstance(like, dict):
                return flat[f"{which}."].reshape(like.shape)
            return join_parts({name: flat[f"{which}.{name}"].reshape(part.shape) for name, part in like.items()})

        actions = flat["actions"].reshape(anchors.actions.shape)
        if actions.is_floating_point():
            actions = actions.clamp(self.low.to(actions), self.high.to(actions))
        return anchors.replace(
            obs=observation("obs", anchors.obs),
            actions=actions,
            rewards=flat["rewards"].reshape(anchors.rewards.shape),
            next_obs=observation("next_obs", anchors.next_obs),
        )

    def nbytes(self, capacity: int, features: int) -> int:
        return StoredSpread.nbytes(features) if self.measures else 0

    def state_dict(self) -> dict[str, Any]:
        return self.moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments.load_state_dict(state)
