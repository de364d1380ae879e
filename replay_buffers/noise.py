"""Noise. After RAD, Laskin et al. 2020, Reinforcement learning with augmented data, arXiv:2004.14990."""

import numpy as np

from interreplay import ReplayBuffer
from interreplay.selection import Selector
from interreplay.synthesis import Noise as NoiseSynthesizer


class Noise(ReplayBuffer):
    """x + σ·std(x)·ε, ε ~ N(0, 1), for every number of s, a, r and s'; actions are clipped to their bounds.

    The baseline for interpolation: does it help to be near other transitions, or just to be off? Costs one normal
    number per stored one and the running spread of the stored rows: one block of 64 rows read again per addition.
    A large σ breaks the relation between s, a and s'.

    Args:
        sigma: σ, in standard deviations.
        multiplicative: x·(1 + σε) instead.
        action_low: Lowest action.
        action_high: Highest action.
        selector: Draws the rows; uniformly by default.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        sigma: float = 0.1,
        multiplicative: bool = False,
        action_low: float | np.ndarray = -1.0,
        action_high: float | np.ndarray = 1.0,
        selector: Selector | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        noise = NoiseSynthesizer(sigma, multiplicative, action_low, action_high)
        super().__init__(capacity, selector, synthesizer=noise, n_step=n_step, gamma=gamma, seed=seed, device=device)
