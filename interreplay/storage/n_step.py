"""n-step transitions, computed from episode links when rows are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from interreplay.transitions import Transitions, join_parts, observation_parts

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


def accumulate(storage: Storage, slots: Tensor, rows: Transitions) -> Transitions:
    """n-step transitions that begin with `rows`.

    Each walks up to n − 1 links on and sums discounted rewards. A walk ends early at the end of its
    episode, at a cut, and at the newest row; it then bootstraps from the last next_obs it reached, with
    γ^m for the m steps it took (Sutton & Barto 2018, §7.1).

    Args:
        storage: Where the rows lie; gives ``n_step`` and ``gamma``.
        slots: Their slots ``(n,)``.
        rows: The one-step transitions in these slots.

    Returns:
        Transitions with summed rewards, the last next_obs, terminated and truncated, and discounts
        γ^m·(1 − terminated).
    """
    last, rewards = slots.clone(), rows.rewards.clone()
    factor = torch.ones_like(rewards)
    walking = torch.arange(len(slots), device=slots.device)
    for _ in range(storage.n_step - 1):
        following = storage.successor(last[walking])
        walking, following = walking[following >= 0], following[following >= 0]
        if not len(walking):
            break
        last[walking] = following
        factor[walking] *= storage.gamma
        rewards[walking] += factor[walking] * storage.column("rewards").index_select(0, following)
    end = storage.read(last)
    return rows.replace(
        rewards=rewards,
        next_obs=join_parts({k: v.contiguous() for k, v in observation_parts(end.next_obs).items()}),
        terminated=end.terminated,
        truncated=end.truncated,
        discounts=end.discounts * factor,
    )
