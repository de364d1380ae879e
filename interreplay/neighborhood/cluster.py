"""Local clusters: neighbors from the anchor's cluster (LCER; Zahlner 2022).

See `Clustering` for the clusters. Zahlner does not define how soon older rows follow centers that have moved. Here
65,536 rows are reassigned at each refresh: all rows up to that number, and beyond it one cluster after another.
`benchmarks/speed/clusters.py` measures how many rows are not in the cluster of their nearest center.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.neighborhood.base import NO_NEIGHBOR, SYNTHETIC, Neighborhood, Neighbors
from interreplay.neighborhood.clustering import (
    Clustering,
    ClusterMoments,
    action_range,
    as_transitions,
    discrete_places,
    feature_vectors,
    lead,
    length,
)
from interreplay.neighborhood.discrete_columns import hash_rows
from interreplay.part import standard_normal
from interreplay.storage.columns import num_features
from interreplay.storage.read_views import OneStep, ReadView
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import RunningMoments


class Cluster(Neighborhood):
    """Base class of neighborhoods within clusters.

    Args:
        n_clusters: Number of clusters K, limited to half the number of rows.
        refresh_every: Added rows between refreshes of the centers and the scale, at most a quarter of the stored rows.

    Raises:
        ValueError: If an argument is not a positive integer.
    """

    moments = False

    def __init__(self, n_clusters: int = 1000, refresh_every: int = 1000):
        check_number("n_clusters", n_clusters, 1, whole=True)
        check_number("refresh_every", refresh_every, 1, whole=True)
        self.n_clusters = int(n_clusters)
        self.refresh_every = int(refresh_every)
        self.clustering: Clustering | None = None
        self._size: dict[str, int] = {}

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if not len(slots):
            return
        if self.clustering is None:
            self._size = {
                "capacity": storage.capacity,
                "dims": num_features(storage.columns),
                "numbers": length(storage.columns),
                "before": lead(storage.columns),
                "itemsize": OneStep().vectors(storage, slots[:1].numpy()).itemsize,
            }
            self.clustering = self._make_clustering(**self._size)
        self.clustering.add(storage, slots)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.clustering is not None:
            self.clustering.remove(storage, slots)

    def _make_clustering(self, capacity: int, dims: int, before: int, numbers: int, itemsize: int) -> Clustering:
        moments = None
        read = feature_vectors
        if self.moments:
            moments = ClusterMoments(numbers, f"f{itemsize}")
            read = OneStep().vectors
        else:
            before = 0
        z = slice(before, before + dims)
        return Clustering(capacity, z, self.n_clusters, refresh_every=self.refresh_every, read=read, moments=moments)

    def _clustering(self, storage: Storage) -> Clustering:
        if self.clustering is None or self.clustering.written != storage.written:
            raise RuntimeError(f"{storage.written} rows were stored, but fewer observed; call observe after each add")
        return self.clustering

    def nbytes(self, capacity: int, features: int) -> int:
        """Return the bytes of the clustering: three numbers per row, centers, moments, and z of overwritten rows."""
        clusters = min(self.n_clusters, max(1, capacity // 2))
        moments = 48 * (2 * features + 1) + 8 if self.moments else 0
        overwritten = 4 * features * min(capacity, self.refresh_every)
        return 13 * capacity + clusters * (12 * features + 60 + moments) + overwritten

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"n_clusters": self.n_clusters}
        if self.clustering is None:
            return state
        return state | {"size": dict(self._size), "clustering": self.clustering.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: If the state has another number of clusters.
        """
        if int(state["n_clusters"]) != self.n_clusters:
            raise ValueError(f"the state has n_clusters = {state['n_clusters']}; expected {self.n_clusters}")
        self.clustering = None
        if "clustering" in state:
            self._size = {name: int(value) for name, value in state["size"].items()}
            self.clustering = self._make_clustering(**self._size)
            self.clustering.load_state_dict(state["clustering"])


class ClusterMember(Cluster):
    """A random other member of the anchor's cluster (LCER-RM); the only member of a cluster has no neighbor."""

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        found = self._clustering(storage).members.draw_others(slots.numpy(), rng)
        return torch.from_numpy(found).unsqueeze(1)


class ClusterCenter(Cluster):
    """The mean transition of the anchor's cluster with a little noise (LCER-CC).

    The mean is over s, a, r and s' of the stored members, including the anchor and terminated rows; it is not the
    k-means center. With discrete columns, such as Discrete actions, only members with the anchor's discrete values
    count, and at least two are required. The noise is N(0, (noise·σ_c)²), where σ_c is the standard deviation per
    dimension of the same members. It moves no action beyond ±1, the bounds of stored actions. A mean is never
    terminated: terminated anchors are not blended. With n-step transitions, members count once their n steps are known.

    Moments of single steps without discrete columns are kept up to date with each row. In the other cases, a cluster's
    moments are computed when a batch needs them, and kept until its members change.

    The slot of a mean is −2. The only member of a cluster has no neighbor (slot −1).

    Args:
        n_clusters: Number of clusters K.
        refresh_every: Added rows between refreshes.
        noise: Standard deviation of the noise in units of σ_c.

    Raises:
        ValueError: If an argument is out of range.
    """

    moments = True

    def __init__(
        self,
        n_clusters: int = 1000,
        refresh_every: int = 1000,
        noise: float = 0.01,
    ):
        super().__init__(n_clusters, refresh_every)
        check_number("noise", noise, 0)
        self.noise = float(noise)
        # Per read view and cluster: mean and deviation (2, D) of the members by the hash of their discrete values.
        self._moments: dict[ReadView, dict[int, dict[int, np.ndarray]]] = {}

    def observe(self, storage: Storage, slots: Tensor) -> None:
        super().observe(storage, slots)
        if self.clustering is not None and self.clustering.refreshed == storage.written:
            self._moments.clear()
        self._drop_moments(slots)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        self._drop_moments(slots)
        super().evict(storage, slots)

    def _drop_moments(self, slots: Tensor) -> None:
        """Drop the moments of the clusters of the rows in `slots` ``(n,)``, which are computed again when needed."""
        if self.clustering is not None:
            for known in self._moments.values():
                for cluster in self.clustering.members.cluster[slots.numpy()].tolist():
                    known.pop(cluster, None)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._moments.clear()

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return cluster means ``(n, 1, ...)``; for the only member of a cluster, the anchor."""
        clustering = self._clustering(storage)
        anchors = slots.numpy()
        clusters = clustering.members.cluster.take(anchors)
        discrete = discrete_places(storage.columns)
        if self.view.n_step == 1 and not discrete:
            assert clustering.moments is not None
            mean, std = clustering.moments.mean_and_std(clusters)
            known = clustering.members.size.take(clusters) > 1
        else:
            mean, std, known = self._compute_member_moments(storage, anchors, clusters, discrete)
        noise = standard_normal(mean.shape, rng).numpy()
        std *= self.noise
        std *= noise
        std += mean  # the noisy means
        actions = action_range(storage.columns)
        middle = mean[:, actions]  # may be beyond the bounds itself
        np.clip(std[:, actions], np.minimum(-1.0, middle), np.maximum(1.0, middle), out=std[:, actions])
        if not known.all():
            std[~known] = self.view.vectors(storage, anchors[~known])
        rows = as_transitions(torch.from_numpy(std), storage.columns)
        found = torch.from_numpy(np.where(known, SYNTHETIC, NO_NEIGHBOR))
        return Neighbors(found.unsqueeze(1), rows.map(lambda column: column.unsqueeze(1)))

    def _compute_member_moments(
        self, storage: Storage, anchors: np.ndarray, clusters: np.ndarray, discrete: list[int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and deviation ``(n, D)`` of the members that count for each anchor, and whether there are enough.

        Args:
            storage: The rows.
            anchors: Slots ``(n,)``.
            clusters: Their clusters ``(n,)``.
            discrete: Positions of discrete values in a vector; they must equal the anchor's values.
        """
        known = self._moments.setdefault(self.view, {})
        changing = self._compute_moments(storage, set(clusters.tolist()) - known.keys(), discrete)
        keys = np.zeros(len(anchors), np.uint64)
        if discrete:
            keys = hash_rows(self.view.vectors(storage, anchors)[:, discrete])
        missing = np.full((2, length(storage.columns)), np.nan, f"f{self._size['itemsize']}")
        pairs = zip(clusters.tolist(), keys.tolist(), strict=True)
        moments = np.stack([known[cluster].get(key, missing) for cluster, key in pairs], axis=1)
        for cluster in changing.tolist():
            del known[cluster]
        mean, std = moments
        enough = self._clustering(storage).members.size.take(clusters) > 1
        return mean, std, enough & ~np.isnan(mean[:, 0])

    def _compute_moments(self, storage: Storage, clusters: set[int], discrete: list[int]) -> np.ndarray:
        """Compute the moments of `clusters`, and return those that have rows whose n steps are not known yet.

        Rows are summed in the order of their slots, so that the result depends on a cluster's members only.
        """
        known = self._moments[self.view]
        for cluster in clusters:
            known[cluster] = {}
        members = self._clustering(storage).members
        slots = members.get_members(np.fromiter(clusters, np.int64))
        final = self.view.mature(storage, torch.from_numpy(slots)).numpy()
        changing = np.unique(members.cluster[slots[~final]])
        slots = np.sort(slots[final])
        if not len(slots):
            return changing
        vectors = self.view.vectors(storage, slots)
        own = members.cluster[slots]
        keys = hash_rows(vectors[:, discrete])
        order = np.lexsort((keys, own))  # is stable
        vectors = vectors[order]
        own = own[order]
        keys = keys[order]
        new = np.append(True, (own[1:] != own[:-1]) | (keys[1:] != keys[:-1]))
        first = np.flatnonzero(new)
        moments = RunningMoments(vectors.shape[1], len(first))
        moments.origin[:] = vectors[first]
        moments.add(vectors, np.cumsum(new) - 1)
        found = np.stack(moments.mean_and_std(np.arange(len(first))), axis=1).astype(vectors.dtype)
        for group, row in enumerate(first):
            if moments.counts[group] > bool(discrete):
                known[int(own[row])][int(keys[row])] = found[group]
        return changing
