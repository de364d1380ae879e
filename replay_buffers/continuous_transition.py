"""CT. Lin et al. 2021, Continuous transition: improving sample efficiency with MixUp, arXiv:2011.14487."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import Successor
from interreplay.selection import Selector
from interreplay.synthesis import AdaptiveMixup, Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import TerminationFn


class ContinuousTransition(ReplayBuffer):
    """Each anchor blended with the next step of its episode: points of the trajectory between two frames.

    With α given, λ ~ Beta(α, α) and a batch costs a second gather. Adaptive, λ ~ Beta(β, β) with a β that shrinks
    where a model of the dynamics bends between the two ends, and a batch costs the training of that model as well,
    about what a critic costs. Helps where frames are so close that what lies between is plausible; contacts are
    where it is not. Steps without a stored successor, and those next to a terminal one, stay as they are.

    Args:
        alpha: α, or None for the adaptive temperature.
        threshold: τ of the adaptive temperature, in squared units of [s'; r].
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
        blending = (prob_interpolation, termination_fn, interp_decay)
        if alpha is None:
            mixup: Mixup = AdaptiveMixup(threshold, 3e-4, (256, 256), *blending)
        else:
            mixup = Mixup(Beta(alpha), *blending)
        super().__init__(capacity, selector, Successor(), mixup, credit, n_step, gamma, seed, device)
