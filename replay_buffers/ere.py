"""ERE. Wang & Ross 2019, Boosting soft actor-critic: emphasizing recent experience, arXiv:1906.04009."""

from interreplay import ReplayBuffer
from interreplay.selection import EmphasizedRecent


class ERE(ReplayBuffer):
    """Emphasizes recent transitions: each row is one of the newest max(N·η^(1000u), c_min), u ~ U(0, 1).

    The cost is two random numbers per row, without a tree or memory. It helps if behavior changes quickly and there are
    few updates per step. With many updates, each row is drawn often in any case.

    Source: Wang & Ross 2019, Boosting soft actor-critic: emphasizing recent experience, arXiv:1906.04009.

    Args:
        eta: η; 1 is uniform.
        c_min: Minimum number of newest rows to draw from.
        final_eta: η at the end of the run, reached linearly; the paper uses 1. None keeps η constant.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import ERE
        >>> buffer = ERE(capacity=1_000, eta=0.996, c_min=20, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(256)
        >>> bool(sample.slots.float().mean() > slots.float().mean())  # newer than the average row
        True
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        eta: float = 0.996,
        c_min: int = 5_000,
        final_eta: float | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = EmphasizedRecent(eta, c_min, final_eta)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
