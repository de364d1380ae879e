"""AER. Sun et al. 2020, Attentive experience replay, AAAI."""

from interreplay import ReplayBuffer
from interreplay.selection import Attentive as AttentiveSelector
from interreplay.selection.attentive import Features


class Attentive(ReplayBuffer):
    """Of ⌊λn⌋ uniform candidates the n whose states are most similar to the agent's newest one; λ falls to 1.

    Early in a run it learns what matters for where the agent is; at its end it is uniform replay. Costs λ times the
    reads of a uniform batch, a sort, and the features of all candidates where a network is to compare them. Use it
    where the agent moves slowly through a large state space; short episodes that restart everywhere gain little, for
    their newest state says nothing about the next one.

    Args:
        multiplier: λ at the start of the run; the paper sweeps 2 to 10.
        distance: ``"cosine"`` or ``"ln"``.
        features: Observations ``(n, ...)`` to what is compared ``(n, ...)``; the observations themselves by default.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        multiplier: float = 3.0,
        distance: str = "cosine",
        features: Features | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = AttentiveSelector(multiplier, distance, features)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
