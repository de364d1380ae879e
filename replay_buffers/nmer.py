"""NMER. Sander et al. 2022, Neighborhood mixup experience replay, arXiv:2205.09117."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class NMER(ReplayBuffer):
    """Each anchor blended with one of its k nearest neighbors in z / std(z), z = [s; a]: local linear dynamics.

    λ·anchor + (1 − λ)·neighbor over s, a, r and s', λ ~ Beta(α, α); where either is terminated, the anchor alone.
    Costs a table of neighbors that follows what is stored, about 400 bytes per row and a twentieth of a SAC update
    per added one, and a second gather per batch. Helps where few steps must do and dynamics are smooth, as in most
    locomotion; less where contacts or goals make neighbors end up far apart, and with images, where distances in
    pixels mean little.

    Args:
        k: Neighbors to draw from.
        alpha: λ ~ Beta(α, α).
        selector: Draws the anchors; uniformly by default, `Prioritized()` gives NMER×PER.
        credit: Whom a TD error of a blend is credited to; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: What that probability loses over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without, rows with a terminated end stay.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        k: int = 10,
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
        super().__init__(capacity, selector, KNN(k=k), mixup, credit, n_step, gamma, seed, device)
