"""Elite. The elite sampling of a V-trace platform with experience replay, no paper; AER's successor of about 2022."""

from interreplay import ReplayBuffer
from interreplay.selection import Elite as EliteSelector
from interreplay.selection.elite import Policy


class Elite(ReplayBuffer):
    """Of ⌊λn⌋ uniform candidates n that the current policy might have produced and that were replayed least.

    Off-policyness is the distance between what the behavior policy gave, ``extras["behavior"]`` of the added
    transitions or else their actions, and what the current policy gives for the same observation. Costs λ times the
    reads of a uniform batch, a sort, 8 bytes per row and one evaluation of the policy on all candidates per batch. Use
    it with algorithms that suffer from old data, such as those with n-step returns or V-trace; exploration noise in
    the stored actions blurs the ranking, so store what the policy meant.

    Args:
        multiplier: λ at the start of the run.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.
        strategy: 1 nearest n, 2 evenly spaced over the ranking, 3 least replayed first, 4 least replayed of each of n
            parts of the ranking.
        distance: ``"ln"``, ``"cosine"`` or ``"kl"`` (of Gaussians [mean; log std]).
        policy: Observations ``(n, ...)`` to what the current policy gives ``(n, ...)``. An algorithm sets it with
            ``buffer.connect``; without one, all rows count as on-policy and a warning says so.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        multiplier: float = 6.0,
        alpha: float = 2.0,
        strategy: int = 3,
        distance: str = "ln",
        policy: Policy | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = EliteSelector(multiplier, alpha, strategy, distance, policy)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
