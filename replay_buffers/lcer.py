"""LCER. Zahlner 2022, local cluster experience replay."""

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import ClusterCenter, ClusterMember
from interreplay.selection import Selector
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Uniform
from interreplay.synthesis.mixup import TerminationFn

VARIANTS = {"center": ClusterCenter, "member": ClusterMember}


class LCER(ReplayBuffer):
    """Each anchor blended with its cluster's mean or with another member: λ·anchor + (1 − λ)·partner, λ ~ U(0, 1).

    Clusters are those of k-means in z = [s; a], standardized by what is stored now. With the center, the partner is the
    mean transition (s, a, r, s') of the rows in the anchor's cluster and a noise of a hundredth of their deviation: it
    smooths rewards and outcomes within a cluster. With a member, it is a random other one: a blend of two real rows.

    A clustering costs a fraction of NMER's neighbor table, in time per added row as in memory (13 bytes per row
    against some 500), and its neighbors are further away: those of a region, not the nearest. For dynamics that are
    nearly linear within a cluster, and large buffers. Not where contacts or goals make outcomes jump within one, nor
    with so few rows (below some tens per cluster) that clusters are pairs; lower K there.

    Args:
        variant: "center" for the mean (LCER-CC), "member" for another row (LCER-RM).
        n_clusters: K; never more than half as many as rows.
        refresh_every: Added rows between refreshes of the clusters.
        selector: Draws the anchors; uniformly by default.
        credit: Whom a TD error of a blend is credited to; the anchor by default, and where the partner is a mean.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: What that probability loses over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without, rows with a terminated end stay.
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
        super().__init__(capacity, selector, partners, mixup, credit, n_step, gamma, seed, device)
