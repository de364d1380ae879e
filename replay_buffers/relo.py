"""ReLo. Sujit et al. 2022, Prioritizing samples in reinforcement learning with reducible loss, arXiv:2208.10483."""

from interreplay import ReplayBuffer
from interreplay.selection import Reducible


class ReLo(ReplayBuffer):
    """Prioritizes by the reducible loss: p_i = max(0, L_online − L_target) + ε, both squared TD errors at (s, a).

    If an error is due to noise, the target networks have it as well, and the row loses its priority. The cost is a sum
    tree, as for PER, and one more forward pass of the target critics per update. It helps if rewards or transitions are
    noisy, or if PER is worse than uniform replay.

    Source: Sujit et al. 2022, Prioritizing samples in reinforcement learning with reducible loss, arXiv:2208.10483.

    Args:
        alpha: α; 0 is uniform.
        beta: β of the importance weights (N·P(i))^(−β), annealed to `final_beta` over the run.
        eps: ε.
        final_beta: β at the end of the run; there are no importance weights if both are 0.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import ReLo
        >>> buffer = ReLo(capacity=1_000, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> losses = sample.transitions.rewards.abs()  # usually the differences of squared TD errors
        >>> buffer.update(sample, td_errors=losses, scores={"reducible_loss": losses})
        >>> tuple(buffer.sample(32).weights.shape)
        (32,)
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
