"""Online learning without replay, the baseline of Fedus et al. 2020, Revisiting fundamentals of experience replay."""

from interreplay import ReplayBuffer
from interreplay.selection import Online as OnlineSelector


class Online(ReplayBuffer):
    """Returns the newest n transitions, newest first.

    Nothing is random: batches are as correlated as experience, and with one step per update, consecutive batches differ
    by one row. It costs about as much as uniform replay. Use it to measure the effect of replay; most off-policy
    algorithms fail with it. Rows are repeated while fewer than n are stored.

    Source: the baseline of Fedus et al. 2020, Revisiting fundamentals of experience replay.

    Args:
        capacity: Number of transitions to store; those beyond the batch size are never used.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import Online
        >>> buffer = Online(capacity=256)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> buffer.sample(4).slots.tolist()
        [199, 198, 197, 196]
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
        super().__init__(capacity, OnlineSelector(), n_step=n_step, gamma=gamma, seed=seed, device=device)
