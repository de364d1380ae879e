"""Truncated geometric replay. Korniak et al. 2026, arXiv:2605.10236."""

from interreplay import ReplayBuffer
from interreplay.selection import TruncatedGeometric as TruncatedGeometricSelector


class TruncatedGeometric(ReplayBuffer):
    """Emphasizes recent transitions: P(age i) ∝ (1 − p)^i over the N stored ones, with p for a given mean age.

    The cost is a logarithm per row, without a tree or memory. It is reported to help if updates per step times rows per
    batch are few, and to have no effect if they are many.

    Source: Korniak et al. 2026, When does non-uniform replay matter in reinforcement learning?, arXiv:2605.10236.

    Args:
        mean_age: Mean age relative to the oldest stored row; .5 is uniform, smaller values are more recent.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import TruncatedGeometric
        >>> buffer = TruncatedGeometric(capacity=1_000, mean_age=0.3, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> ages = 199 - buffer.sample(10_000).slots.float()
        >>> round(float(ages.mean()) / 199, 1)
        0.3
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        mean_age: float = 0.3,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = TruncatedGeometricSelector(mean_age)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
