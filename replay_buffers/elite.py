"""Elite. The elite sampling of github.com/parralplex/elite_buffer_vtrace (2022), which has no paper."""

from interreplay import ReplayBuffer
from interreplay.selection import Elite as EliteSelector
from interreplay.selection.elite import Policy


class Elite(ReplayBuffer):
    """Selects, from ⌊λn⌋ uniform candidates, n rows that are close to the current policy and were replayed least.

    Off-policyness is the distance between the outputs of the behavior policy (``extras["behavior"]`` of the added
    transitions, or else their actions) and the current policy for the same observation. The cost is λ times the
    reads of a uniform batch, a sort, 8 bytes per row and one evaluation of the policy on all candidates per batch. It
    suits algorithms that are sensitive to old data, such as those with n-step returns or V-trace. Exploration noise in
    the stored actions makes the ranking less accurate; store the policy's output if possible.

    Source: the elite sampling of a V-trace platform, github.com/parralplex/elite_buffer_vtrace (2022); no paper.

    Args:
        multiplier: λ at the start of the run.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.
        strategy: 1: the nearest n; 2: evenly spaced over the ranking; 3: the least replayed ones; 4: the least replayed
            of each of n parts of the ranking.
        distance: ``"ln"``, ``"cosine"`` or ``"kl"`` (of Gaussians [mean; log std]).
        policy: Maps observations ``(n, ...)`` to outputs of the current policy ``(n, ...)``. An algorithm sets it with
            ``buffer.connect``. Without a policy, all rows count as on-policy, and a warning is issued.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import Elite
        >>> def policy(obs):
        ...     return 0 * obs[:, :2]  # actions (n, 2) for observations (n, 3)
        >>> buffer = Elite(capacity=1_000, multiplier=6, policy=policy, seed=0)
        >>> slots = buffer.add(Episodes().transitions(400))
        >>> sample = buffer.sample(32)
        >>> tuple(sample.transitions.actions.shape)
        (32, 2)
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
