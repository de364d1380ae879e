"""Exact lists of the nearest rows of all rows, found by comparing vectors with all others: an index for GPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.running_moments import drift

RANK_DRIFT = 0.0075
"""Drift of the scale above which distances are computed again; .01 costs .012 of recall."""
SEARCH_DRIFT = 0.15
"""Drift of the scale from which neighbors are searched again; 10 of 32 survive .2 with recall .999."""
COMPARED = 1 << 17
"""Rows that are compared with the queries at a time."""
SEARCHED = 1024
"""Rows that are searched at a time."""
RANKED = 1 << 26
"""Numbers in the vectors of the neighbors that are ranked at a time."""
SPARE = 8
"""Additional candidates of a search, since products of vectors are less exact than the distances that rank them."""
BLOCK = 64
"""Distances of which first the smallest is considered."""
INFINITY = math.inf


class NeighborLists:
    """For each row, its nearest rows in z / std(z), nearest first; all tensors are on one device.

    The list of a row contains every row within its *reach*. A new row is compared with all rows: it obtains its list,
    and enters the lists of the rows whose reach includes it. Full lists drop their farthest rows, which shortens their
    reach. Replaced rows leave all lists; rows with fewer than `k` neighbors left are searched again.

    The scale is that of all stored rows. If it drifts, the distances in all lists are computed again; if it has drifted
    far since all rows were searched, all are searched again. This also happens if more than `SEARCHED` rows are new.

    Args:
        capacity: Number of slots.
        dims: Number of features.
        k: Number of neighbors that each list has at least, if there are as many other rows.
        device: Device of the lists.

    Attributes:
        number: Number of neighbors ``(capacity,)``, at most k, float64.
        slots: Slots of the neighbors, int32 ``(capacity, width)``; −1 behind the last.
        squared: Their squared distances ``(capacity, width)``; infinite behind the last.
        reach: Squared distance ``(capacity,)`` within which a list is complete; infinite if it has all other rows.
        count: Number of rows.
    """

    def __init__(self, capacity: int, dims: int, k: int, device: torch.device):
        self.k = k
        self.width = choose_width(k)
        self.count = 0
        self._ranked = max(1, RANKED // (self.width * dims))  # lists that are ranked at a time
        self.slots = torch.full((capacity, self.width), -1, dtype=torch.int32, device=device)
        self.squared = torch.full((capacity, self.width), INFINITY, device=device)
        self.reach = torch.full((capacity,), INFINITY, device=device)
        self.number = torch.zeros(capacity, dtype=torch.float64, device=device)
        self._dims = dims
        # z / std(z), its squared length and 1: the squared distance of two rows is one product, see `_queries`.
        self._vectors = torch.zeros(capacity, dims + 2, device=device)
        self._mean = np.zeros(dims)
        self._std = np.zeros(dims)
        self._searched_std = np.zeros(dims)  # the scale when all rows were searched

    def replace(self, features: Tensor, start: int, added: int) -> None:
        """Update the lists after rows were written into consecutive slots of the ring.

        Args:
            features: Features of the rows in all slots ``(capacity, dims)``, float32.
            start: First of the slots that were written.
            added: Number of rows that were written, at most the capacity.
        """
        capacity = len(features)
        fresh = (start + torch.arange(added, device=features.device)) % capacity
        if self.count == capacity or start + added > capacity:
            self._remove(start, added)
        self.count = min(capacity, max(self.count, start + added))
        mean, std = standardization(features[: self.count])
        if added > SEARCHED or drift(std, self._searched_std) >= SEARCH_DRIFT:
            self._use_scale(features, mean, std)
            self._searched_std = std
            for queries in torch.arange(self.count, device=features.device).split(SEARCHED):
                self._search(queries)
        else:
            if drift(std, self._std) > RANK_DRIFT:
                self._recompute_distances(features, mean, std)
            self._vectors[fresh] = self._scale(features[fresh])
            self._search(fresh, enter=True)
            if self.count > self.k:
                short = self.squared[: self.count, self.k - 1].isinf().nonzero()[:, 0]
                for queries in short.split(SEARCHED):
                    self._search(queries)
        self._count_neighbors()

    def _count_neighbors(self) -> None:
        used = slice(0, self.count)
        self.number[used] = self.squared[used, : self.k].isfinite().sum(1, dtype=torch.float64)

    # -- Scale -------------------------------------------------------------------------------------

    def _use_scale(self, features: Tensor, mean: np.ndarray, std: np.ndarray) -> None:
        """Scale all vectors with another mean and standard deviation."""
        self._mean = mean
        self._std = std
        for rows in torch.arange(self.count, device=features.device).split(COMPARED):
            self._vectors[rows] = self._scale(features[rows])

    def _scale(self, rows: Tensor) -> Tensor:
        """Return `_vectors` of features ``(n, d)``."""
        weights = np.divide(1.0, self._std, out=np.zeros_like(self._std), where=self._std > 0)
        mean = torch.from_numpy(self._mean).to(rows)
        scaled = (rows - mean) * torch.from_numpy(weights).to(rows)
        return torch.cat([scaled, scaled.square().sum(1, keepdim=True), torch.ones_like(scaled[:, :1])], 1)

    def _recompute_distances(self, features: Tensor, mean: np.ndarray, std: np.ndarray) -> None:
        """Compute all distances in another scale; reaches change as the distances of the farthest rows in the lists."""
        self._use_scale(features, mean, std)
        for rows in torch.arange(self.count, device=features.device).split(self._ranked):
            before = self.squared[rows]
            members = self.slots[rows]
            squared = self._distances(rows, members)
            number = before.isfinite().sum(1, keepdim=True)
            last = (number - 1).clamp(min=0)
            change = squared.gather(1, last) / before.gather(1, last)
            usable = (number > 0) & (before.gather(1, last) > 0)
            self.reach[rows] *= torch.where(usable, change, 1.0)[:, 0]
            squared, order = squared.sort(dim=1)
            self.squared[rows] = squared
            self.slots[rows] = members.gather(1, order)

    # -- Lists -------------------------------------------------------------------------------------

    def _remove(self, start: int, added: int) -> None:
        """Remove the rows in consecutive slots from all lists."""
        used = self.slots[: self.count]
        gone = (used >= 0) & (torch.remainder(used - start, len(self.slots)) < added)
        rows = gone.any(1).nonzero()[:, 0]
        squared = self.squared[rows].masked_fill_(gone[rows], INFINITY)
        squared, order = squared.sort(dim=1, stable=True)
        self.squared[rows] = squared
        self.slots[rows] = self.slots[rows].gather(1, order).masked_fill_(squared.isinf(), -1)

    def _search(self, queries: Tensor, enter: bool = False) -> None:
        """Find the lists of the rows in slots ``(q,)``.

        With `enter`, the rows also enter the lists of all other rows whose reach includes them.
        """
        found = queries.new_empty((len(queries), 0))
        best = self._vectors.new_empty((len(queries), 0))
        entered = torch.zeros(self.count, dtype=torch.bool, device=queries.device)
        wanted = self.width + SPARE
        for start in range(0, self.count, COMPARED):
            stop = min(start + COMPARED, self.count)
            squared = self._queries(queries) @ self._vectors[start:stop].T
            if enter:
                torch.any(squared < self.reach[start:stop], dim=0, out=entered[start:stop])
            nearest, place = smallest(exclude(squared, queries - start), wanted)
            best = torch.cat([best, nearest], 1)
            found = torch.cat([found, place + start], 1)
            best, order = best.topk(min(wanted, best.shape[1]), dim=1, largest=False)
            found = found.gather(1, order)
        found = found.masked_fill_(best.isinf(), -1)
        squared, order = self._distances(queries, found).sort(dim=1)
        found = found.gather(1, order)
        missing = max(0, self.width - squared.shape[1])
        squared = torch.nn.functional.pad(squared[:, : self.width], (0, missing), value=INFINITY)
        self.squared[queries] = squared
        self.slots[queries] = torch.nn.functional.pad(found[:, : self.width], (0, missing), value=-1).int()
        self.reach[queries] = squared[:, -1]
        if enter:
            entered[queries] = False  # their lists are complete
            for rows in entered.nonzero()[:, 0].split(self._ranked):
                self._enter(rows, queries)

    def _enter(self, rows: Tensor, queries: Tensor) -> None:
        """Enter those of the rows in slots `queries` ``(q,)`` within reach into the lists of `rows` ``(n,)``."""
        products = self._vectors[rows] @ self._queries(queries).T
        offered = queries[products.topk(min(self.width, len(queries)), dim=1, largest=False).indices]
        squared = self._distances(rows, offered)
        squared = squared.masked_fill_(squared > self.reach[rows][:, None], INFINITY)
        both, order = torch.cat([self.squared[rows], squared], 1).sort(dim=1, stable=True)
        members = torch.cat([self.slots[rows], offered.int()], 1).gather(1, order)
        full = both[:, self.width].isfinite()
        kept = both[:, : self.width]
        self.squared[rows] = kept
        self.slots[rows] = members[:, : self.width].masked_fill_(kept.isinf(), -1)
        self.reach[rows] = torch.where(full, kept[:, -1], self.reach[rows])

    def _queries(self, rows: Tensor) -> Tensor:
        """Return vectors ``(n, d + 2)`` of rows whose products with `_vectors` are squared distances: −2·z, 1, |z|²."""
        vectors = self._vectors[rows]
        return torch.cat([-2.0 * vectors[:, :-2], vectors[:, -1:], vectors[:, -2:-1]], 1)

    def _distances(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return squared distances ``(n, m)`` of rows ``(n,)`` from others ``(n, m)``; infinite for −1."""
        vectors = self._vectors[:, : self._dims]
        difference = vectors[others.clamp(min=0).long()] - vectors[rows][:, None]
        return difference.square_().sum(-1).masked_fill_(others < 0, INFINITY)

    # -- State -------------------------------------------------------------------------------------

    @staticmethod
    def nbytes_per_row(dims: int, k: int) -> int:
        """Return the bytes of the lists, their reach and the scaled features per slot."""
        return 8 * choose_width(k) + 4 * (dims + 5)

    def state_dict(self) -> dict[str, Any]:
        """Return the lists and the scale; tensors of a CPU share memory."""
        used = slice(0, self.count)
        return {
            "k": self.k,
            "slots": self.slots[used].cpu(),
            "squared": self.squared[used].cpu(),
            "reach": self.reach[used].cpu(),
            "mean": self._mean,
            "std": self._std,
            "searched_std": self._searched_std,
        }

    def load_state_dict(self, state: dict[str, Any], features: Tensor) -> None:
        """Restore a state with the same k, given the features of the rows in all slots ``(capacity, dims)``."""
        self.count = len(state["reach"])
        for name in ("slots", "squared", "reach"):
            getattr(self, name)[: self.count] = torch.as_tensor(state[name]).to(features.device)
        self._searched_std = np.array(state["searched_std"])
        self._use_scale(features, np.array(state["mean"]), np.array(state["std"]))
        self._count_neighbors()


def choose_width(k: int) -> int:
    """Return the length of lists of which the first `k` rows must be correct."""
    return max(16, 3 * k + 2)


def standardization(features: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation ``(d,)``, float64, of features ``(n, d)``; 0 if a feature is constant."""
    mean = features.mean(0, dtype=torch.float64)
    squared = (features - mean.to(features)).square_().mean(0, dtype=torch.float64)
    center, std = torch.stack([mean, squared.sqrt()]).cpu().numpy()
    return center, np.where(std <= 1e-9 * np.abs(center), 0.0, std)


def exclude(squared: Tensor, place: Tensor) -> Tensor:
    """Set one number of each row of ``(q, n)``, in column `place` ``(q,)``, to infinity if it is in the matrix."""
    inside = (place >= 0) & (place < squared.shape[1])
    place = place.clamp(0, squared.shape[1] - 1)[:, None]
    return squared.scatter_(1, place, torch.where(inside[:, None], INFINITY, squared.gather(1, place)))


def smallest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the smallest numbers of each row of ``(q, n)``, at most `count`, and their columns.

    The m smallest numbers are in the m blocks with the smallest minima. On a GPU, choosing blocks first takes a
    fraction of the time of `torch.topk` on all numbers.
    """
    width = numbers.shape[1]
    count = min(count, width)
    if width < 2 * BLOCK * count:
        nearest = numbers.topk(count, dim=1, largest=False)
        return nearest.values, nearest.indices
    whole = width - width % BLOCK
    blocks = numbers[:, :whole].unflatten(1, (-1, BLOCK))
    chosen = blocks.amin(-1).topk(count, dim=1, largest=False).indices
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    columns = (chosen[:, :, None] * BLOCK + torch.arange(BLOCK, device=numbers.device)).flatten(1)
    rest = torch.arange(whole, width, device=numbers.device).expand(len(numbers), -1)
    inside = torch.cat([inside, numbers[:, whole:]], 1)
    nearest = inside.topk(count, dim=1, largest=False)
    return nearest.values, torch.cat([columns, rest], 1).gather(1, nearest.indices)
