"""Outcome of a step as a learner receives it: with a clipped reward, and a lost life as a termination.

Such an environment has the attribute ``has_learner_view`` and puts both into its infos. Scores, lengths and episodes
are still those of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

KEY = "learner_view"
"""Key in infos of the reward and termination ``(float, bool)`` to store."""


def has_learner_view(env: Any) -> bool:
    """Return whether the infos of an environment contain the outcome to store."""
    return bool(getattr(env.unwrapped, "has_learner_view", False))


def learner_view(
    infos: Sequence[dict[str, Any]], rewards: np.ndarray, terminated: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rewards and terminations ``(n,)`` to store; the first step of an episode has those of the game."""
    seen = [info.get(KEY, own) for info, *own in zip(infos, rewards, terminated, strict=True)]
    return np.array([reward for reward, _ in seen], np.float64), np.array([end for _, end in seen], bool)


def sign(reward: float) -> float:
    """Return −1, 0 or 1 (Mnih et al. 2015)."""
    return float(np.sign(reward))


def clamp(reward: float) -> float:
    """Return the reward within [−1, 1]."""
    return min(max(float(reward), -1.0), 1.0)


def soft_asymmetric(reward: float) -> float:
    """Return .3·min(tanh r, 0) + 5·max(tanh r, 0), as IMPALA has it (Espeholt et al. 2018, arXiv:1802.01561)."""
    squeezed = float(np.tanh(reward))
    return 0.3 * squeezed if squeezed < 0 else 5.0 * squeezed


REWARD_CLIPPINGS: dict[str, Callable[[float], float]] = {
    "sign": sign,
    "clamp": clamp,
    "soft_asymmetric": soft_asymmetric,
    "none": float,
}
