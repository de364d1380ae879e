"""Uniform replay. Lin 1992, Self-improving reactive agents based on reinforcement learning, planning and teaching."""

from interreplay import ReplayBuffer
from interreplay.selection import Uniform as UniformSelector


class Uniform(ReplayBuffer):
    """Draws every stored transition with the same probability, with replacement.

    The baseline for all other methods and a good first choice: it has no parameters and costs one gather per batch.

    Source: Lin 1992, Self-improving reactive agents based on reinforcement learning, planning and teaching.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import Uniform
        >>> buffer = Uniform(capacity=1_000, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))  # random observations (3,) and actions (2,)
        >>> sample = buffer.sample(32)
        >>> tuple(sample.transitions.obs.shape)
        (32, 3)
        >>> tuple(sample.transitions.rewards.shape)
        (32,)
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
