"""KNN outcome, a baseline in the code of NMER (Sander et al. 2022), github.com/rmsander/interreplay."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import NearestOutcome
from interreplay.synthesis.mixup import TerminationFn


class KNNOutcome(ReplayBuffer):
    """Replaces each anchor's outcome by that of a near neighbor j: (s_i, a_i, r_j, s_i + Δs_j); nothing is blended.

    It shows whether NMER's benefit is due to blending or to the neighbors. The cost is NMER's neighbor
    graph. The error is the change of r and Δs within the distance of a neighbor.

    Source: a baseline in the code of NMER (Sander et al. 2022), github.com/rmsander/interreplay, with `--use_delta`.

    Args:
        k: Number of nearest neighbors; one of them is drawn uniformly.
        selector: Draws the anchors; uniform by default.
        credit: Which rows receive a TD error; the anchor by default.
        prob_interpolation: Probability with which a row takes its neighbor's outcome.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end keep
            their own outcome.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import KNNOutcome
        >>> buffer = KNNOutcome(capacity=1_000, k=1, seed=0)
        >>> rows = Episodes(ends=0).transitions(200)
        >>> slots = buffer.add(rows)
        >>> sample = buffer.sample(32)
        >>> bool((sample.transitions.rewards == rows.rewards[sample.neighbor_slots]).all())
        True
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
        super().__init__(
            capacity, selector, KNN(k=k), outcome, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
