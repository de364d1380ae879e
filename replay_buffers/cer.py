"""CER. Zhang & Sutton 2017, A deeper look at experience replay, arXiv:1712.01275."""

from interreplay import ReplayBuffer
from interreplay.selection import Combined, Selector


class CER(ReplayBuffer):
    """Combined experience replay: n − 1 uniformly drawn transitions and the newest one.

    Costs nothing. The paper's remedy for buffers that are too large, where a new transition would wait long for its
    first turn; with one update per step and 256 rows per batch that wait is short, and so is the gain.

    Args:
        selector: Draws the other n − 1; uniformly by default, `Prioritized()` for PER.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        selector: Selector | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        super().__init__(capacity, Combined(selector), n_step=n_step, gamma=gamma, seed=seed, device=device)
