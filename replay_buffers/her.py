"""HER. Andrychowicz et al. 2017, Hindsight experience replay, arXiv:1707.01495."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import HindsightGoals, Neighborhood
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import Mixup, Relabel, Synthesizer
from interreplay.synthesis.relabel import GoalFn


class HER(ReplayBuffer):
    """Relabels k of k + 1 rows with a goal achieved later in their episode; rewards and terminations are recomputed.

    For environments with goals: observations are a Dict with achieved_goal and desired_goal, and
    r = compute_reward(s'.achieved_goal, s'.desired_goal). An episode that missed its goal then shows how to reach
    other goals. The cost is a second gather and one call of compute_reward per batch. It suits sparse rewards; the
    benefit is small with dense rewards or if goals do not differ between episodes. With `neighborhood`, the relabeled
    rows are blended, each end relabeled from its own episode, and rewards are computed from the blended goals:
    ``HER(neighborhood=KNN(k=10))`` combines HER and NMER.

    Source: Andrychowicz et al. 2017, Hindsight experience replay, arXiv:1707.01495.

    Args:
        k: Relabeled rows per row that keeps its goal; 0 is `Uniform`.
        strategy: Step that achieved the goal: the row's own or a later one (``"future"``), the episode's last one
            (``"final"``), or any one of the episode (``"episode"``).
        compute_reward: The environment's function, ``(achieved, desired, info) -> (n,)``; set automatically with RLlib.
        compute_terminated: The environment's function; without it, terminations do not change. Set automatically with
            RLlib unless `compute_reward` is given.
        neighborhood: Gathers the rows to blend with; None disables blending.
        blend: Blends the relabeled rows; `Mixup()` by default.
        selector: Draws the rows; uniform by default.
        credit: Which rows receive the TD error of a blend; the anchor by default.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import HER
        >>> def compute_reward(achieved, desired, info):
        ...     return -abs(achieved - desired).sum(-1)
        >>> shapes = {"observation": (3,), "achieved_goal": (2,), "desired_goal": (2,)}
        >>> buffer = HER(capacity=1_000, k=4, compute_reward=compute_reward, seed=0)
        >>> rows = Episodes(obs_shape=shapes).transitions(200)
        >>> slots = buffer.add(rows)
        >>> sample = buffer.sample(1_000)
        >>> changed = sample.transitions.obs["desired_goal"] != rows.obs["desired_goal"][sample.slots]
        >>> round(float(changed.any(dim=1).float().mean()), 1)  # share of relabeled rows: k / (k + 1)
        0.8
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        k: float = 4,
        strategy: str = "future",
        compute_reward: GoalFn | None = None,
        compute_terminated: GoalFn | None = None,
        neighborhood: Neighborhood | None = None,
        blend: Synthesizer | None = None,
        selector: Selector | None = None,
        credit: PriorityUpdate | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        if neighborhood is None and blend is not None:
            raise ValueError(f"blend is {blend!r} without a neighborhood; expected both, or only a neighborhood")
        if neighborhood is not None and blend is None:
            blend = Mixup()
        relabel = Relabel(k, compute_reward, compute_terminated, blend)
        goals = HindsightGoals(strategy, neighborhood)
        super().__init__(
            capacity, selector, goals, relabel, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
