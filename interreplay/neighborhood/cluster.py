"""Local clusters: partners from the cluster that an anchor belongs to (LCER; Zahlner 2022).

Clusters are those of `Clustering`. A row joins its nearest center when it is added. How soon older rows follow centers
that have moved the paper leaves open: here 65,536 rows look again at each refresh, that is all of them up to
that number, and beyond it in turn. `benchmarks/speed/clusters.py` measures how many are not with their nearest center.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.neighborhood.base import NO_NEIGHBOR, SYNTHETIC, Neighborhood, Neighbors
from interreplay.neighborhood.clusters.choice_moments import ChoiceMoments
from interreplay.neighborhood.clusters.cluster_moments import ClusterMoments
from interreplay.neighborhood.clusters.clustering import Clustering
from interreplay.neighborhood.clusters.older_states import upgraded
from interreplay.neighborhood.clusters.transition_vectors import (
    action_range,
    as_transitions,
    choice_places,
    feature_vectors,
    lead,
    length,
)
from interreplay.part import standard_normal
from interreplay.storage.columns import num_features
from interreplay.storage.read_views import OneStep
from interreplay.storage.ring import Storage


class Cluster(Neighborhood):
    """What neighborhoods of one cluster share: the clusters.

    Args:
        n_clusters: K, of which there are never more than half as many as rows.
        refresh_every: Added rows between refreshes of the centers and the scale; with fewer than four times as many
            stored, a quarter of these.

    Raises:
        ValueError: When either is not a positive integer.
    """

    moments = False

    def __init__(self, n_clusters: int = 1000, refresh_every: int = 1000):
        check_number("n_clusters", n_clusters, 1, whole=True)
        check_number("refresh_every", refresh_every, 1, whole=True)
        self.n_clusters, self.refresh_every = int(n_clusters), int(refresh_every)
        self.clustering: Clustering | None = None
        self._size: dict[str, int] = {}
        self._choices: list[int] = []

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if not len(slots):
            return
        if self.clustering is None:
            self._size = {"capacity": storage.capacity}
            self._size |= {"dims": num_features(storage.columns), "numbers": length(storage.columns)}
            self._size["before"] = lead(storage.columns)
            self._choices = choice_places(storage.columns) if self.moments else []
            self._size["itemsize"] = OneStep().vectors(storage, slots[:1].numpy(force=True)).itemsize
            self.clustering = self._begin(**self._size)
            if self.moments:
                self.clustering.follow(self.view)
        self.clustering.add(storage, slots)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.clustering is not None:
            self.clustering.leave(storage, slots)

    def _begin(self, capacity: int, dims: int, before: int, numbers: int, itemsize: int) -> Clustering:
        sizes = self.n_clusters, self.refresh_every
        if not self.moments:
            return Clustering(capacity, slice(0, dims), *sizes, feature_vectors)
        z, dtype, choices = slice(before, before + dims), f"f{itemsize}", np.array(self._choices, np.int64)
        sums: Callable[[], ClusterMoments | ChoiceMoments] = functools.partial(ClusterMoments, numbers, dtype)
        if len(choices):
            sums = functools.partial(ChoiceMoments, numbers, dtype, choices)
        return Clustering(capacity, z, *sizes, OneStep().vectors, sums)

    def _clustering(self, storage: Storage) -> Clustering:
        if self.clustering is None or self.clustering.written != storage.written:
            seen = 0 if self.clustering is None else self.clustering.written
            raise RuntimeError(f"{storage.written} rows were stored but {seen} observed; call observe after each add")
        return self.clustering

    def statistics(self) -> dict[str, float]:
        """Return numbers of clusters and empty ones, rows per cluster, and the share of rows alone in theirs."""
        if self.clustering is None:
            return {}
        sizes = self.clustering.members.size
        return {
            "clusters": float(len(sizes)),
            "clusters_empty": float((sizes == 0).sum()),
            "cluster_size_mean": float(sizes.mean()),
            "cluster_size_median": float(np.median(sizes)),
            "cluster_size_max": float(sizes.max()),
            "lone_members": float((sizes == 1).sum() / max(1, sizes.sum())),
        }

    def nbytes(self, capacity: int, features: int) -> int:
        """Return bytes beside a full storage: three numbers per row, centers, moments, and z of rows that are gone.

        Where there are choices, moments are of the groups that occur in a cluster, whose number is not known before:
        one per cluster counts here.
        """
        numbers = 2 * features + 1 if self.moments else features
        clusters = min(self.n_clusters, max(1, capacity // 2))
        moments = 48 * numbers + 8 if self.moments else 0
        return (
            13 * capacity + clusters * (12 * features + 60 + moments) + 4 * features * min(capacity, self.refresh_every)
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit; large arrays share memory."""
        state: dict[str, Any] = {"n_clusters": self.n_clusters}
        if self.clustering is None:
            return state
        choices = {"choices": list(self._choices)} if self._choices else {}
        return state | {"size": dict(self._size), "clustering": self.clustering.state_dict(), **choices}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ValueError: When the state is that of another number of clusters.
        """
        if int(state["n_clusters"]) != self.n_clusters:
            raise ValueError(f"the state has n_clusters = {state['n_clusters']}; this has {self.n_clusters}")
        self.clustering = None
        if "clustering" in state:
            self._size = {name: int(value) for name, value in state["size"].items()}
            self._choices = [int(place) for place in state.get("choices", ())]
            n_step, saved = self._size.pop("n_step", 1), state["clustering"]
            self.clustering = self._begin(**self._size)
            known = n_step == self.view.n_step
            self.clustering.load_state_dict(upgraded(saved, self.clustering, self.view if known else None))


class ClusterMember(Cluster):
    """A random other member of the anchor's cluster (LCER-RM); a row that is alone in its cluster has none."""

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        found = self._clustering(storage).members.others(slots.numpy(force=True), rng)
        return torch.from_numpy(found).to(slots.device).unsqueeze(1)


class ClusterCenter(Cluster):
    """The mean transition of the anchor's cluster with a little noise (LCER-CC).

    The mean is that of s, a, r and s' over the members stored now, the anchor and terminated ones among them; it is not
    the k-means center. Where parts of them are choices, such as Discrete actions, it is that of the members with the
    anchor's choices, of which there have to be two. The noise is N(0, (noise·σ_c)²), σ_c the deviation per dimension of
    the same members, and carries no action beyond its bounds. A mean is never terminated itself: anchors that are
    revert, and terminated members count in it with the s' and r they have. With n-step transitions members count once
    their n steps are known.
    The slot of a mean is −2, as it is no stored row; a row that is alone in its cluster has no neighbor, −1.

    Args:
        n_clusters: K.
        refresh_every: Added rows between refreshes.
        noise: Deviation of the noise in units of σ_c.
        bounds: Smallest and largest action; stored actions are normalized to ±1 where they have bounds.

    Raises:
        ValueError: When an argument is out of range.
    """

    moments = True

    def __init__(
        self,
        n_clusters: int = 1000,
        refresh_every: int = 1000,
        noise: float = 0.01,
        bounds: tuple[float, float] = (-1.0, 1.0),
    ):
        super().__init__(n_clusters, refresh_every)
        check_number("noise", noise, 0)
        for bound in bounds:
            check_number("bounds: an action", bound)
        if not bounds[0] < bounds[1]:
            raise ValueError(f"bounds are {bounds}; expected the smallest and the largest action")
        self.noise, self.bounds = float(noise), (float(bounds[0]), float(bounds[1]))

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return means ``(n, 1, ...)``, or the anchors themselves where these are alone in their clusters."""
        clustering, anchors = self._clustering(storage), slots.numpy(force=True)
        clusters = clustering.members.cluster.take(anchors)
        own = functools.partial(self.view.vectors, storage, anchors)
        mean, std, known = clustering.moments_of(storage, self.view).around(clusters, own)
        vectors = self._noisy(mean, std, action_range(storage.columns), rng)
        alone = (clustering.members.size.take(clusters) < 2) | ~known
        if alone.any():
            vectors[alone] = self.view.vectors(storage, anchors[alone])
        made = as_transitions(torch.from_numpy(vectors).to(slots.device), storage.columns)
        found = torch.from_numpy(np.where(alone, NO_NEIGHBOR, SYNTHETIC)).to(slots.device)
        return Neighbors(found.unsqueeze(1), made.map(lambda column: column.unsqueeze(1)))

    def _noisy(self, mean: np.ndarray, std: np.ndarray, actions: slice, rng: np.random.Generator) -> np.ndarray:
        """Return vectors ``(n, D)`` around `mean`; noise stops at the actions' bounds, or at a mean beyond them."""
        noise = standard_normal(mean.shape, rng, torch.device("cpu")).numpy()
        std *= self.noise
        std *= noise
        std += mean
        low, high = self.bounds
        middle = mean[:, actions]
        np.clip(std[:, actions], np.minimum(low, middle), np.maximum(high, middle), out=std[:, actions])
        return std
