"""Noise. After RAD, Laskin et al. 2020, Reinforcement learning with augmented data, arXiv:2004.14990."""

import numpy as np

from interreplay import ReplayBuffer
from interreplay.selection import Selector
from interreplay.synthesis import Noise as NoiseSynthesizer


class Noise(ReplayBuffer):
    """Adds noise: x + σ·std(x)·ε, ε ~ N(0, 1), for every number of s, a, r and s'; actions are clipped to their bounds.

    A baseline for interpolation: it shows whether any perturbation has the same effect. The cost is one normal number
    per stored number, and the running standard deviation of the stored rows. A large σ breaks the relation between s, a
    and s'.

    Source: after RAD (Laskin et al. 2020, Reinforcement learning with augmented data, arXiv:2004.14990).

    Args:
        sigma: σ, in standard deviations.
        multiplicative: Whether to use x·(1 + σε) instead.
        action_low: Lowest action.
        action_high: Highest action.
        selector: Draws the rows; uniform by default.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import Noise
        >>> buffer = Noise(capacity=1_000, sigma=0.1, seed=0)
        >>> rows = Episodes().transitions(200)
        >>> slots = buffer.add(rows)
        >>> sample = buffer.sample(32)
        >>> difference = sample.transitions.obs - rows.obs[sample.slots]
        >>> bool(0.05 < difference.std() < 0.2)
        True
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
