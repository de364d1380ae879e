"""Online learning without replay, the baseline of Fedus et al. 2020, Revisiting fundamentals of experience replay."""

from interreplay import ReplayBuffer
from interreplay.selection import Online as OnlineSelector


class Online(ReplayBuffer):
    """The newest n transitions of all: a batch is what has just happened, in order, newest first.

    Nothing is drawn, so batches are as correlated as experience is, and with one step per update consecutive
    batches differ by one row. Costs nothing. Use it to see what replay is worth; off-policy algorithms mostly fail
    with it. Before n rows are stored those that are come several times.

    Args:
        capacity: Transitions to keep; more than the batch size are never used.
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
