"""CT. Lin et al. 2021, Continuous transition: improving sample efficiency with MixUp, arXiv:2011.14487."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import Successor
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import AdaptiveMixup, Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class ContinuousTransition(ReplayBuffer):
    """Blends each anchor with the next step of its episode: points of the trajectory between two steps.

    With a given α, λ ~ Beta(α, α), and a batch costs a second gather. With the adaptive temperature, λ ~ Beta(β, β),
    and β decreases if a model of the dynamics is nonlinear between the two ends; a batch then also costs an update of
    this model, about as much as one of a critic. It helps if consecutive states are close enough to interpolate, which
    contacts prevent. Steps without a stored successor and steps next to a terminal one are not blended.

    Source: Lin et al. 2021, Continuous transition: improving sample efficiency with MixUp, arXiv:2011.14487.

    Args:
        alpha: α; None for the adaptive temperature.
        threshold: τ of the adaptive temperature, in squared units of [s'; r].
        selector: Draws the anchors; uniform by default.
        credit: Which rows receive the TD error of a blend; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end are
            not blended.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import ContinuousTransition
        >>> buffer = ContinuousTransition(capacity=1_000, alpha=0.75, seed=0)
        >>> slots = buffer.add(Episodes(ends=0).transitions(200))
        >>> sample = buffer.sample(32)
        >>> blended = sample.neighbor_slots >= 0
        >>> bool((sample.neighbor_slots == sample.slots + 1)[blended].all())
        True
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        alpha: float | None = None,
        threshold: float = 0.1,
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
        if alpha is None:
            mixup: Mixup = AdaptiveMixup(
                threshold,
                prob_interpolation=prob_interpolation,
                termination_fn=termination_fn,
                interp_decay=interp_decay,
            )
        else:
            mixup = Mixup(Beta(alpha), prob_interpolation, termination_fn, interp_decay)
        super().__init__(
            capacity, selector, Successor(), mixup, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
