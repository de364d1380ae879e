"""ERE. Wang & Ross 2019, Boosting soft actor-critic: emphasizing recent experience, arXiv:1906.04009."""

from interreplay import ReplayBuffer
from interreplay.selection import EmphasizedRecent


class ERE(ReplayBuffer):
    """Recent transitions more often: one of the newest max(N·η^(1000u), c_min), u ~ U(0, 1) for every row.

    Costs two random numbers per row, no tree and no memory. Helps where behavior changes quickly, so that old rows show
    what the agent does no more, at few updates per step; with many updates each row is learned from often anyway.

    Args:
        eta: η; 1 is uniform, .996 the paper's for most tasks, .999 for slow ones.
        c_min: Newest rows that are drawn from at least.
        final_eta: η at the end of the run, to which it moves linearly; the paper takes 1. None leaves it as it is.
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
