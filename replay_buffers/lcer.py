"""LCER. Zahlner 2022, local cluster experience replay."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import ClusterCenter, ClusterMember
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Uniform
from interreplay.synthesis.mixup import TerminationFn

VARIANTS = {"center": ClusterCenter, "member": ClusterMember}


class LCER(ReplayBuffer):
    """Blends each anchor with its cluster's mean or another member: λ·anchor + (1 − λ)·partner, λ ~ U(0, 1).

    Clusters are found by k-means in z = [s; a], standardized by the stored rows. With the center, the partner is the
    mean transition (s, a, r, s') of the anchor's cluster with a noise of a hundredth of the standard deviation; it
    smooths rewards and outcomes within a cluster. With a member, the partner is another row of the cluster.

    The clusters take 13 bytes per row, compared with about 400 for NMER's neighbor graph, and about .2 ms per added
    row. The partners are further away than NMER's: in the same region, but not the nearest. It suits large buffers and
    dynamics that are nearly linear within a cluster. It does not suit outcomes that jump within a cluster, due to
    contacts or goals, nor clusters of a few rows; reduce K if there are fewer than some tens of rows per cluster.

    Source: Zahlner 2022, local cluster experience replay.

    Args:
        variant: ``"center"`` for the mean (LCER-CC), ``"member"`` for another row (LCER-RM).
        n_clusters: Number of clusters K, limited to half the number of rows.
        refresh_every: Added rows between refreshes of the clusters.
        selector: Draws the anchors; uniform by default.
        credit: Which rows receive the TD error of a blend; the anchor by default, and always if the partner is a mean.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end are
            not blended.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import LCER
        >>> buffer = LCER(capacity=1_000, variant="member", n_clusters=20, seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> tuple(sample.transitions.obs.shape), tuple(sample.mix.shape)
        ((32, 3), (32,))
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        variant: str = "center",
        n_clusters: int = 1000,
        refresh_every: int = 1000,
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
        if variant not in VARIANTS:
            raise ValueError(f"variant is {variant!r}; expected one of {', '.join(map(repr, VARIANTS))}")
        partners = VARIANTS[variant](n_clusters, refresh_every)
        mixup = Mixup(Uniform(), prob_interpolation, termination_fn, interp_decay)
        super().__init__(
            capacity, selector, partners, mixup, credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device
        )
