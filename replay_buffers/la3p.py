"""LA3P. Saglam et al. 2022, Actor prioritized experience replay, arXiv:2209.00532."""

from interreplay import ReplayBuffer
from interreplay.selection import ActorPrioritized


class LA3P(ReplayBuffer):
    """Trains all networks on uniform rows, critics also on rows with large and the actor on rows with small TD errors.

    Critics use uniform rows with the PAL loss and as many rows drawn by LAP. The actor uses the uniform rows and as
    many with P(i) ∝ 1 / max(|δ_i|, 1)^α. A batch of n rows contains n/3 of each kind: use ``train_batch_size=384`` for
    the authors' 256 rows per network. The cost is two sum trees; a third of each network's forward pass is for rows
    on which the network is not trained. It helps if the actor follows critics where their errors are largest.

    Source: Saglam et al. 2022, Actor prioritized experience replay, arXiv:2209.00532.

    Args:
        uniform_share: Share of each network's rows that is drawn uniformly; 1 is uniform replay with PAL.
        alpha: α of the priorities and of PAL.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import LA3P
        >>> buffer = LA3P(capacity=1_000, uniform_share=0.5, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(384)
        >>> int((sample.actor_weights > 0).sum())  # rows that the actor is trained on
        256
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
