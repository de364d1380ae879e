"""KNN outcome, the baseline of Sander et al. 2022, Neighborhood mixup experience replay, arXiv:2205.09117."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.synthesis import NearestOutcome
from interreplay.synthesis.mixup import TerminationFn


class KNNOutcome(ReplayBuffer):
    """Each anchor with the outcome of a nearest neighbor j: (s_i, a_i, r_j, s_i + Δs_j), nothing blended.

    Tells whether NMER's gain comes from mixing or from neighbors alone. Costs what NMER does: the neighbor table.
    Exact where r and Δs change little within the distance of a neighbor, wrong by that change elsewhere.

    Args:
        k: The outcome is that of one of the k nearest, each with the same probability.
        selector: Draws the anchors; uniformly by default.
        credit: Whom a TD error is credited to; the anchor by default.
        prob_interpolation: Probability with which a row takes its neighbor's outcome.
        interp_decay: What that probability loses over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without, rows with a terminated end stay.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        k: int = 1,
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
        outcome = NearestOutcome(prob_interpolation, termination_fn, interp_decay)
        super().__init__(capacity, selector, KNN(k=k), outcome, credit, n_step, gamma, seed, device)
