"""Naive mixup. Zhang et al. 2018, mixup: beyond empirical risk minimization, arXiv:1710.09412."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import RandomNeighbor
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class NaiveMixup(ReplayBuffer):
    """Blends each anchor with any other stored transition: λ·anchor + (1 − λ)·other, λ ~ Beta(α, α).

    A baseline for methods that choose neighbors: it assumes that dynamics and rewards are linear over the whole state
    space. The cost is a second gather. Use it to measure the effect of locality.

    Source: Zhang et al. 2018, mixup: beyond empirical risk minimization, arXiv:1710.09412.

    Args:
        alpha: α; the default follows NMER's code, github.com/rmsander/interreplay.
        selector: Draws the anchors; uniform by default.
        credit: Which rows receive the TD error of a blend; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end are
            not blended.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import NaiveMixup
        >>> buffer = NaiveMixup(capacity=1_000, alpha=0.75, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> bool(((sample.mix >= 0) & (sample.mix <= 1)).all())
        True
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        alpha: float = 0.75,
        selector: Selector | None = None,
        credit: PriorityUpdate | None = None,
        prob_interpolation: float = 1.0,
        interp_decay: float = 0.0,
        termination_fn: TerminationFn | str | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        mixup = Mixup(Beta(alpha), prob_interpolation, termination_fn, interp_decay)
        partners = RandomNeighbor()
        super().__init__(
            capacity, selector, partners, mixup, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
