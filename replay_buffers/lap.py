"""LAP. Fujimoto et al. 2020, An equivalence between loss functions and non-uniform sampling, arXiv:2007.06049."""

from interreplay import ReplayBuffer
from interreplay.selection import LossAdjusted


class LAP(ReplayBuffer):
    """Transitions with P(i) ∝ max(|δ_i|, 1)^α, and Huber's loss of the critics in place of importance weights.

    |δ| is the largest over the critics. The rows bring their loss along, so `huber_delta` and `pal_alpha` are refused.
    The critics' setting `pal_alpha` with uniform rows has the same gradient in expectation, without a tree. Costs a sum
    tree, as PER does. Helps where PER harms: with dense rewards and continuous actions. RLlib's own algorithms report
    the mean |δ| over critics, which serves there, and have a loss of their own; a warning says so.

    Args:
        alpha: α, 0 is uniform replay with Huber's loss.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        alpha: float = 0.4,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        super().__init__(capacity, LossAdjusted(alpha), n_step=n_step, gamma=gamma, seed=seed, device=device)
