"""PER. Schaul et al. 2016, Prioritized experience replay, arXiv:1511.05952."""

from interreplay import ReplayBuffer
from interreplay.selection import Prioritized


class PER(ReplayBuffer):
    """Draws transitions in proportion to their last TD error: P(i) = p_i^α / Σ p^α, p_i = |δ_i| + ε.

    The cost is a sum tree: a few operations per level and batch, and 12 bytes per row. It helps if few transitions are
    informative (sparse rewards), but often not with dense rewards and continuous actions.

    Source: Schaul et al. 2016, Prioritized experience replay, arXiv:1511.05952.

    Args:
        alpha: α; 0 is uniform.
        beta: β of the importance weights (N·P(i))^(−β), annealed to `final_beta` over the run.
        eps: ε.
        final_beta: β at the end of the run; there are no importance weights if both are 0.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import PER
        >>> buffer = PER(capacity=1_000, alpha=0.6, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> buffer.update(sample, td_errors=sample.transitions.rewards)  # usually the critic's errors
        >>> tuple(buffer.sample(32).weights.shape)
        (32,)
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        alpha: float = 0.6,
        beta: float = 0.4,
        eps: float = 1e-6,
        final_beta: float = 1.0,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = Prioritized(alpha, beta, eps, final_beta)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
