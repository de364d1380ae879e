"""LAP. Fujimoto et al. 2020, An equivalence between loss functions and non-uniform sampling, arXiv:2007.06049."""

from interreplay import ReplayBuffer
from interreplay.selection import LossAdjusted


class LAP(ReplayBuffer):
    """Draws transitions with P(i) ∝ max(|δ_i|, 1)^α and uses the Huber loss instead of importance weights.

    |δ| is the largest one over the critics. The buffer sets the critic loss, so `huber_delta`, `pal_alpha` and
    `critic_loss` are rejected. The setting `pal_alpha` with uniform rows has the same expected gradient without a tree.
    The cost is a sum tree, as for PER. It helps where PER often does not: with dense rewards and continuous actions.
    RLlib's own algorithms report the mean |δ| over critics and use their own loss; a warning is issued.

    Source: Fujimoto et al. 2020, An equivalence between loss functions and non-uniform sampling, arXiv:2007.06049.

    Args:
        alpha: α; 0 is uniform replay with the Huber loss.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import LAP
        >>> buffer = LAP(capacity=1_000, alpha=0.4, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> buffer.update(sample, td_errors=sample.transitions.rewards)  # usually the critic's errors
        >>> sample.critic_loss
        Huber(delta=1.0)
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
