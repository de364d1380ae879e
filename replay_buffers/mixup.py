"""Naive mixup. Zhang et al. 2018, mixup: beyond empirical risk minimization, arXiv:1710.09412."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import RandomNeighbor
from interreplay.selection import Selector
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class NaiveMixup(ReplayBuffer):
    """Each anchor blended with any other stored transition: λ·anchor + (1 − λ)·other, λ ~ Beta(α, α).

    The yardstick for methods that choose their neighbors: it assumes dynamics and rewards that are linear over the
    whole state space. Costs a second gather. Use it to show what locality is worth, hardly for anything else.

    Args:
        alpha: α.
        selector: Draws the anchors; uniformly by default.
        credit: Whom a TD error of a blend is credited to; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: What that probability loses over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without, rows with a terminated end stay.
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
        super().__init__(capacity, selector, RandomNeighbor(), mixup, credit, n_step, gamma, seed, device)
