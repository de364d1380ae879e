"""LaBER. Lahire et al. 2022, Large batch experience replay, arXiv:2110.01528."""

from interreplay import ReplayBuffer
from interreplay.part import Score
from interreplay.selection import LargeBatch


class LaBER(ReplayBuffer):
    """Draws n rows of a large uniform batch with P ∝ |δ| under the current networks, weighted by mean|δ| / |δ_i|.

    The expected gradient equals uniform replay's, with less variance, and priorities are never stale. The cost is a
    forward pass of all networks over `multiplier` times the batch, about one more update with 4, and no memory. It
    helps if an update is cheap compared with an env step.

    Source: Lahire et al. 2022, Large batch experience replay, arXiv:2110.01528.

    Args:
        multiplier: Candidates per row; 1 is uniform.
        score: Maps rows ``(n, ...)`` and names of scores to scores ``(n,)``, here ``"mean_error"``, the mean |δ| over
            the critics. An algorithm sets it with ``buffer.connect``.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import LaBER
        >>> def score(rows, names):
        ...     return {name: rows.rewards.abs() for name in names}  # usually TD errors of the current critics
        >>> buffer = LaBER(capacity=1_000, multiplier=4, score=score, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> tuple(sample.weights.shape)
        (32,)
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        multiplier: float = 4.0,
        score: Score | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = LargeBatch(multiplier, score)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
