"""Uniform replay. Lin 1992, Self-improving reactive agents based on reinforcement learning, planning and teaching."""

from interreplay import ReplayBuffer
from interreplay.selection import Uniform as UniformSelector


class Uniform(ReplayBuffer):
    """Draws every stored transition with the same probability, with replacement.

    The baseline for all other methods and a good first choice: it has no parameters and costs one gather per batch.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        super().__init__(capacity, UniformSelector(), n_step=n_step, gamma=gamma, seed=seed, device=device)
