"""S4RL. Sinha et al. 2021, S4RL: surprisingly simple self-supervision for offline RL, arXiv:2103.06326."""

from interreplay import ReplayBuffer
from interreplay.selection import Selector
from interreplay.synthesis import StateAugmentation


class S4RL(ReplayBuffer):
    """Augments states and keeps actions and rewards; by default s̃ = λs + (1 − λ)s', λ ~ Beta(.4, .4).

    The cost is a few operations per view; with m views the learner evaluates its critics m times. It is intended for
    offline data, where no new experience regularizes the critic. ``"dropout"`` and ``"switch"`` produce states that are
    physically impossible.

    Source: Sinha et al. 2021, S4RL: surprisingly simple self-supervision for offline RL, arXiv:2103.06326.

    Args:
        augmentation: ``"mixup"``, ``"gaussian"``, ``"uniform"``, ``"scaling"``, ``"dropout"`` or ``"switch"``.
        views: Number of views m; learners average Q-values and targets over them. If m > 1, all views are in
            ``extras``; one view replaces the states.
        strength: Strength of the augmentation; the paper's value by default, see `StateAugmentation`.
        selector: Draws the rows; uniform by default.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import S4RL
        >>> buffer = S4RL(capacity=1_000, augmentation="mixup", views=2, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> tuple(sample.transitions.extras["views_obs"].shape)
        (32, 2, 3)
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
