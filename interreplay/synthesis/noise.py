"""Noise: stored rows with random perturbations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.part import standard_normal
from interreplay.storage.columns import Columns
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import ExactMoments
from interreplay.synthesis.base import Synthesized, Synthesizer, reject_without_floats
from interreplay.transitions import Transitions, map_observation, observation_parts


class Noise(Synthesizer):
    """x + σ·std(x)·ε for every number x of s, a, r and s' of every row, ε ~ N(0, 1).

    A baseline for interpolation, after the random perturbations of RAD (Laskin et al. 2020, arXiv:2004.14990). std(x)
    is computed over the stored single steps, also with n-step transitions. Actions are clipped to their bounds. Flags,
    discounts and discrete values do not change. With σ = 0 the rows are exactly the stored ones.

    Args:
        sigma: σ ≥ 0.
        multiplicative: Whether to use x·(1 + σε) instead of x + σ·std(x)·ε.
        action_low: Lowest action, a number or an array that broadcasts to ``(n, *action_shape)``; buffers scale actions
            to [−1, 1].
        action_high: Highest action.

    Raises:
        ValueError: If σ is negative, or the lowest action is not below the highest.
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
        self.sigma = float(sigma)
        self.multiplicative = multiplicative
        self.low = torch.as_tensor(action_low)
        self.high = torch.as_tensor(action_high)
        self.uses_std = self.sigma > 0 and not multiplicative
        self.moments: ExactMoments | None = None

    def check(self, columns: Columns) -> None:
        reject_without_floats(columns, "perturbed")

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if not self.uses_std:
            return
        vectors = storage.chain.vectors(slots.numpy())
        if self.moments is None:
            self.moments = ExactMoments(vectors.shape[1])
            self.moments.origin[0] = vectors[0]
        self.moments.add(vectors)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.moments is not None:
            self.moments.remove(storage.chain.vectors(slots.numpy()))

    def std(self) -> Tensor:
        """Return the standard deviation of each number in [s; a; r; s'] over the stored rows ``(D,)``, float64."""
        assert self.moments is not None
        return torch.from_numpy(self.moments.mean_and_std()[1])

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        if self.sigma == 0:
            return Synthesized(anchors)
        widths = []
        for column in (anchors.obs, anchors.actions, anchors.rewards, anchors.next_obs):
            widths += [part[:1].numel() for part in observation_parts(column).values()]
        noise = standard_normal((len(anchors), sum(widths)), rng)
        noise *= (self.sigma * self.std()).to(noise) if self.uses_std else self.sigma
        epsilons = iter(noise.split(widths, dim=1))

        def perturb(part: Tensor) -> Tensor:
            epsilon = next(epsilons).reshape(part.shape).to(part.dtype)
            if not part.is_floating_point():
                return part
            if self.multiplicative:
                return torch.addcmul(part, part, epsilon)
            return part + epsilon

        obs = map_observation(perturb, anchors.obs)
        actions = perturb(anchors.actions)
        rewards = perturb(anchors.rewards)
        next_obs = map_observation(perturb, anchors.next_obs)
        if actions.is_floating_point():
            actions = actions.clamp(self.low.to(actions), self.high.to(actions))
        return Synthesized(anchors.replace(obs=obs, actions=actions, rewards=rewards, next_obs=next_obs))

    def nbytes(self, capacity: int, features: int) -> int:
        return 5 * 8 * (2 * features + 1) + 8 if self.uses_std else 0

    def state_dict(self) -> dict[str, Any]:
        return {} if self.moments is None else self.moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments = None
        if state:
            self.moments = ExactMoments(np.shape(state["origin"])[1])
            self.moments.load_state_dict(state)
