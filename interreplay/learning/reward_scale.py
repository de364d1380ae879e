"""Rewards divided by the running deviation of the discounted return."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from interreplay.learning.networks.normalization import Moments
from interreplay.transitions import Transitions


class RewardScale:
    """The divisor of rewards in drawn batches, from the returns G of all rows so far.

    In each episode G ← γG + r, from 0 on. The divisor is max(√(var(G) + 1e-8), max|G| / 5), as in SimbaV2 (Lee et al.
    2025, arXiv:2502.15280) and FlashSAC (arXiv:2604.04539): returns have a deviation of at most 1 and lie in [−5, 5].
    There, the G of an episode's last row is its reward alone and enters the next episode; here it is the whole return,
    and the next episode starts at 0. The first rows count as much as all others.

    Args:
        gamma: Discount factor γ per step.
    """

    LIMIT = 5.0
    EPSILON = 1e-8

    def __init__(self, gamma: float):
        self.gamma = gamma
        self._moments = Moments(())
        self._largest = 0.0
        self._returns: dict[int, float] = {}

    @property
    def divisor(self) -> float:
        """The current divisor; 1 before the first row."""
        if not self._moments.count:
            return 1.0
        deviation = math.sqrt(float(self._moments.deviation) ** 2 + self.EPSILON)
        return max(deviation, self._largest / self.LIMIT)

    def observe(self, rows: Transitions) -> None:
        """Add rows ``(n,)`` with episode ids; the rows of an episode arrive in order."""
        over = (rows.terminated | rows.truncated).tolist()
        returns = []
        for episode, reward, ends in zip(rows.episode.tolist(), rows.rewards.tolist(), over, strict=True):
            value = self.gamma * self._returns.pop(episode, 0.0) + reward
            if not ends:
                self._returns[episode] = value
            returns.append(value)
        self._moments.observe(np.array(returns))
        self._largest = max([self._largest, *map(abs, returns)])

    def forget(self, episodes: Iterable[int] | None = None) -> None:
        """Drop the returns of episodes that no row will continue; None for all."""
        for episode in list(self._returns) if episodes is None else episodes:
            self._returns.pop(int(episode), None)

    def scaled(self, rows: Transitions) -> Transitions:
        """Return the rows with their rewards, or sums of n steps, divided by `divisor`."""
        return rows.replace(rewards=rows.rewards / self.divisor)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics and the returns of running episodes."""
        return {
            "moments": self._moments.state(),
            "largest": self._largest,
            "episodes": np.array(list(self._returns), dtype=np.int64),
            "returns": np.array(list(self._returns.values()), dtype=np.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`."""
        self._moments.load(state["moments"])
        self._largest = float(state["largest"])
        episodes = np.asarray(state["episodes"]).tolist()
        returns = np.asarray(state["returns"]).tolist()
        self._returns = dict(zip(episodes, returns, strict=True))
