"""NMER. Sander et al. 2022, Neighborhood mixup experience replay, arXiv:2205.09117."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class NMER(ReplayBuffer):
    """Blends each anchor with one of its k nearest neighbors in z / std(z), z = [s; a]: local linear dynamics.

    A row is λ·anchor + (1 − λ)·neighbor over s, a, r and s', λ ~ Beta(α, α), or the anchor if either is terminated. The
    cost is a graph of neighbors, about 400 bytes per row and a twentieth of a SAC update per added row, and a second
    gather per batch. It helps if data are scarce and dynamics are smooth, as in most locomotion tasks. It helps less if
    contacts or goals separate neighbors, and with images, because distances between pixels are not meaningful.

    Source: Sander et al. 2022, Neighborhood mixup experience replay, arXiv:2205.09117.

    Args:
        k: Number of neighbors to draw from.
        alpha: λ ~ Beta(α, α).
        selector: Draws the anchors; uniform by default, `Prioritized()` combines NMER and PER.
        credit: Which rows receive the TD error of a blend; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end are
            not blended.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import NMER
        >>> buffer = NMER(capacity=1_000, k=10, alpha=0.75, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))  # random observations (3,) and actions (2,)
        >>> sample = buffer.sample(32)
        >>> tuple(sample.transitions.obs.shape), tuple(sample.mix.shape)
        ((32, 3), (32,))
        >>> bool((sample.neighbor_slots != sample.slots).all())
        True
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
        super().__init__(
            capacity, selector, KNN(k=k), mixup, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
