"""CER. Zhang & Sutton 2017, A deeper look at experience replay, arXiv:1712.01275."""

from interreplay import ReplayBuffer
from interreplay.selection import Combined, Selector


class CER(ReplayBuffer):
    """Combined experience replay: n − 1 uniform transitions and the newest one.

    The cost is a few array operations per batch. The paper proposes it for buffers that are too large, in which a new
    transition is drawn late. With one update per step and 256 rows per batch a new transition is drawn soon, and the
    benefit is small.

    Source: Zhang & Sutton 2017, A deeper look at experience replay, arXiv:1712.01275.

    Args:
        selector: Draws the other n − 1 rows; uniform by default, `Prioritized()` for PER.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import CER
        >>> buffer = CER(capacity=1_000, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> int(slots[-1]) in buffer.sample(32).slots.tolist()
        True
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
