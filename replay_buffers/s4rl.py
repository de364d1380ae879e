"""S4RL. Sinha et al. 2021, S4RL: surprisingly simple self-supervision for offline RL, arXiv:2103.06326."""

from interreplay import ReplayBuffer
from interreplay.selection import Selector
from interreplay.synthesis import StateAugmentation


class S4RL(ReplayBuffer):
    """States a little changed, actions and rewards as they are; by default s̃ = λs + (1 − λ)s', λ ~ Beta(.4, .4).

    Costs a few operations per view; with m views the learner evaluates its critics m times as often. Meant for fixed
    data sets, where there is no new experience to smooth the critic; online it is a regularizer. ``"dropout"`` and
    ``"switch"`` make states that no body can be in.

    Args:
        augmentation: ``"mixup"``, ``"gaussian"``, ``"uniform"``, ``"scaling"``, ``"dropout"`` or ``"switch"``.
        views: m, over which learners average Q-values and targets; the further ones are in ``extras``.
        strength: Of the augmentation; the paper's by default, see `StateAugmentation`.
        selector: Draws the rows; uniformly by default.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        augmentation: str = "mixup",
        views: int = 1,
        strength: float | None = None,
        selector: Selector | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        augment = StateAugmentation(augmentation, views, strength)
        super().__init__(capacity, selector, synthesizer=augment, n_step=n_step, gamma=gamma, seed=seed, device=device)
