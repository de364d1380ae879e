"""LA3P. Saglam et al. 2022, Actor prioritized experience replay, arXiv:2209.00532."""

from interreplay import ReplayBuffer
from interreplay.selection import ActorPrioritized


class LA3P(ReplayBuffer):
    """Uniform rows for all networks, rows of large error for the critics, rows of small error for the actor.

    Critics learn from uniform rows by PAL and from as many by LAP, the actor from the uniform ones and as many with
    P(i) ∝ 1 / max(|δ_i|, 1)^α. A batch of n holds n/3 of each kind: for the authors' 256 rows per network take
    ``train_batch_size=384``. Costs two sum trees, and a third of each network's pass is for rows that it does not learn
    from. Helps where an actor would follow critics where they are most wrong.

    Args:
        uniform_share: Part of each network's rows that are drawn uniformly; 1 is uniform replay with PAL.
        alpha: α of the priorities and of PAL.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        uniform_share: float = 0.5,
        alpha: float = 0.4,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = ActorPrioritized(uniform_share, alpha)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
