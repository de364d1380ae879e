"""HER. Andrychowicz et al. 2017, Hindsight experience replay, arXiv:1707.01495."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import HindsightGoals, Neighborhood
from interreplay.selection import Selector
from interreplay.synthesis import Mixup, Relabel, Synthesizer
from interreplay.synthesis.relabel import GoalFn


class HER(ReplayBuffer):
    """Rows of which k in k + 1 want what was achieved later in their episode; r and termination follow the new goal.

    For environments with goals: observations are a Dict with achieved_goal and desired_goal, and
    r = compute_reward(s'.achieved_goal, s'.desired_goal). An episode that missed its goal then shows how to reach
    others. Costs a second gather and one call of compute_reward for the batch. Use it where rewards are sparse; with
    dense ones, or where goals do not differ between episodes, there is little to gain. With `neighborhood`, rows
    are blended after that, each end relabeled from its own episode, and rewards are computed from the blended
    goals: ``HER(neighborhood=KNN(k=10))`` is NMER in hindsight.

    Args:
        k: Relabeled rows per row that keeps its goal; 0 is `Uniform`.
        strategy: Goals are achieved at the row's own or a later step, ``"future"``; at the episode's last,
            ``"final"``; or anywhere in it, ``"episode"``.
        compute_reward: The environment's, ``(achieved, desired, info) -> (n,)``. Under RLlib it is found.
        compute_terminated: The environment's; without it termination stays as stored. Under RLlib it is found.
        neighborhood: Gathers what rows are blended with; nothing by default.
        blend: How; `Mixup()` by default.
        selector: Draws the rows; uniformly by default.
        credit: Whom a TD error of a blend is credited to; the anchor by default.
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
            raise ValueError(f"blend is {blend!r} without a neighborhood; expected both, or a neighborhood alone")
        if neighborhood is not None and blend is None:
            blend = Mixup()
        relabel, steps = Relabel(k, compute_reward, compute_terminated, blend), HindsightGoals(strategy, neighborhood)
        super().__init__(capacity, selector, steps, relabel, credit, n_step, gamma, seed, device)
