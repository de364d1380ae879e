"""ReLo. Sujit et al. 2022, Prioritizing samples in reinforcement learning with reducible loss, arXiv:2208.10483."""

from interreplay import ReplayBuffer
from interreplay.selection import Reducible


class ReLo(ReplayBuffer):
    """PER by what can still be learned: p_i = max(0, L_online − L_target) + ε, both squared TD errors at (s, a).

    Rows whose error is noise are as wrong for the target networks, and lose their priority. Costs a sum tree, as PER
    does, and one more pass of the target critics per update. Helps where rewards or transitions are noisy, or where
    plain PER is worse than uniform.

    Args:
        alpha: α, 0 is uniform.
        beta: β of the importance weights (N·P(i))^(−β), annealed to `final_beta` over the run.
        eps: ε.
        final_beta: β at the end; with both 0 there are no importance weights.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        alpha: float = 0.5,
        beta: float = 0.4,
        eps: float = 1e-6,
        final_beta: float = 1.0,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = Reducible(alpha, beta, eps, final_beta)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
