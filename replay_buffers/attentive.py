"""AER. Sun et al. 2020, Attentive experience replay, AAAI."""

from interreplay import ReplayBuffer
from interreplay.selection import Attentive as AttentiveSelector
from interreplay.selection.attentive import Features


class Attentive(ReplayBuffer):
    """Selects, from ⌊λn⌋ uniform candidates, the n states most similar to the agent's newest one; λ decreases to 1.

    Early in a run it learns from states near the agent; at the end it is uniform replay. The cost is λ times the reads
    of a uniform batch, a sort, and the features of all candidates if a network computes them. It suits agents that move
    slowly through a large state space. Short episodes with random starts benefit little, because the newest state is
    not informative about the next one.

    Source: Sun et al. 2020, Attentive experience replay, AAAI.

    Args:
        multiplier: λ at the start of the run.
        distance: ``"cosine"`` or ``"ln"``.
        features: Maps observations ``(n, ...)`` to compared features ``(n, ...)``; the identity by default.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import Attentive
        >>> buffer = Attentive(capacity=1_000, multiplier=3, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)  # of 96 candidates, those most similar to the newest observation
        >>> tuple(sample.transitions.obs.shape)
        (32, 3)
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
