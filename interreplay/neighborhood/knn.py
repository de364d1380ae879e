"""The k nearest neighbors of an anchor, among everything stored now.

Distance: Euclidean in z / std(z), z = [s; a], std over all rows stored now (Sander 2022, arXiv 2205.09117,
which recomputes neighbors as the buffer grows). An exact search per batch takes 5 ms per anchor at 10⁶ rows, so on
the CPU neighbors come from a graph that is kept up to date (see `docs/decisions/0002-neighbor-table.md`);
on a GPU they are searched for exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.neighborhood.base import Neighborhood
from interreplay.neighborhood.choices import CODE, Choices, Separated
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.neighborhood.knn_index.neighbor_graph import NeighborGraph
from interreplay.storage.columns import Columns, choice_columns

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class KNN(Neighborhood):
    """Draws uniformly from the k nearest rows of each anchor, the anchor itself excluded by its slot.

    Rows equal to the anchor are neighbors; overwritten rows are not. A feature that never varies counts nothing. Where
    parts of rows are choices, the neighbors are the k nearest of those with the anchor's.

    Args:
        k: Neighbors to choose from. With fewer other rows stored, all of them.
        draw: How many of them to return per anchor, without repetition; None for all k, nearest first.

    Raises:
        ValueError: When k or draw is out of range.
    """

    def __init__(self, k: int = 10, draw: int | None = 1):
        check_number("k", k, 1, whole=True)
        if draw is not None:
            check_number("draw", draw, 1, k, whole=True)
        self.k, self.draw = int(k), None if draw is None else int(draw)
        self.width = max(16, 3 * self.k + 2)
        self.graph: NeighborGraph | None = None
        self._made_anew = False
        self._choices: Choices | None = None
        self._code = 0

    def check(self, columns: Columns) -> None:
        self._code = CODE if choice_columns(columns) else 0

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if storage.device.type != "cpu" or not len(slots):
            return
        if self._choices is not None and self._choices.names:
            self._choices.add(storage, slots)
        if self.graph is None:
            self._index(storage)
        else:
            self.graph.add(self._seen(storage), slots.numpy())

    def _of(self, storage: Storage) -> Choices:
        """Return the choices of what is stored."""
        if self._choices is None:
            self._choices = Choices(storage)
        return self._choices

    def _seen(self, storage: Storage) -> Any:
        """Return the storage as the graph sees it."""
        choices = self._choices or self._of(storage)
        return Separated(storage, choices) if choices.names else storage

    def _index(self, storage: Storage) -> None:
        """Begin a graph with all rows that are stored now, the oldest first."""
        stored = np.arange(storage.written - len(storage), storage.written) % storage.capacity
        seen = self._seen(storage)
        dims = seen.features(torch.from_numpy(stored[:1])).shape[1]
        self.graph = NeighborGraph(storage.capacity, dims, self.k, self.width, CODE if seen is not storage else 0)
        self.graph.add(seen, stored)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.graph is not None:
            self.graph.leave(self._seen(storage), slots.numpy())
            if self._choices is not None and self._choices.names:
                self._choices.remove(storage, slots)

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return slots ``(n, draw)`` int64 of neighbors drawn for `slots` ``(n,)``; −1 where there are too few."""
        if self.draw is None:
            return self.neighbors(storage, slots)
        if storage.device.type != "cpu" or self._of(storage).names:
            near = self.neighbors(storage, slots)
            found = np.full(len(slots), min(self.k, len(storage) - 1))
            if self._of(storage).names:  # only some of the others have the anchor's
                found = (near >= 0).sum(1).cpu().numpy()
            chosen = torch.from_numpy(self._columns(found, rng)).to(near.device)
            return torch.where(chosen >= 0, near.gather(1, chosen.clamp(min=0)), -1)
        graph = self._graph(storage)
        graph.settle(storage, slots.numpy())
        if self.draw == 1 and graph.complete(slots.numpy()):
            column = (rng.random(len(slots)) * self.k).astype(np.int64)
            return torch.from_numpy(graph.table.slots_of(graph.table.pick(slots.numpy(), column)).reshape(-1, 1))
        ages, order = graph.candidates(slots.numpy())
        if self.draw == 1 and len(storage) > 1:
            return torch.from_numpy(self._pick_one(ages, order, rng))
        columns = self._columns(np.minimum(order[:, -1], self.k), rng)
        return torch.from_numpy(self._pick(ages, order, columns))

    def neighbors(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return slots ``(n, k)`` int64 of the k nearest rows of `slots` ``(n,)``, nearest first; −1 for none."""
        choices = self._of(storage)
        if storage.device.type != "cpu":
            return nearest(
                storage, slots, self.k, (lambda rows: choices.read(storage, rows)) if choices.names else None
            )
        graph = self._graph(storage)
        graph.settle(self._seen(storage), slots.numpy())
        ages, order = graph.candidates(slots.numpy())
        if choices.names:
            return self._of_same_choice(storage, slots, ages, order)
        columns = np.broadcast_to(np.arange(self.k), (len(ages), self.k))
        return torch.from_numpy(self._pick(ages, order, np.where(columns < order[:, -1:], columns, -1)))

    def _of_same_choice(self, storage: Storage, slots: Tensor, ages: np.ndarray, order: np.ndarray) -> Tensor:
        """Return the first k of the live candidates with the anchor's choices; searched for where these are too few."""
        assert self.graph is not None and self._choices is not None
        live = np.diff(order, axis=1, prepend=0.0) > 0
        found = np.where(live, self.graph.table.slots_aged(ages), slots.numpy()[:, None])
        same = live & self._choices.same(storage, slots, torch.from_numpy(found)).numpy()
        rank = same.cumsum(axis=1)
        near = np.full((len(slots), self.k), -1, np.int64)
        row, column = np.nonzero(same & (rank <= self.k))
        near[row, rank[row, column] - 1] = found[row, column]
        result = torch.from_numpy(near)
        short = np.flatnonzero(rank[:, -1] < np.minimum(self.k, self._choices.others(storage, slots)))
        if len(short):
            some = torch.from_numpy(short)
            result[some] = nearest(storage, slots[some], self.k, self._choices.reader(storage))
        return result

    def _pick(self, ages: np.ndarray, order: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return slots ``(n, m)`` of the live candidates number `columns` ``(n, m)``, −1 where that is −1."""
        places = [(order > column[:, None]).argmax(1) for column in columns.T.astype(np.float32)]
        picked = ages[np.arange(len(ages))[:, None], np.stack(places, 1)]
        assert self.graph is not None
        slots = self.graph.table.slots_aged(picked)
        slots[columns < 0] = -1
        return slots

    def _pick_one(self, ages: np.ndarray, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what `_pick` does for one column drawn of the first k, in two thirds of the time; each has some."""
        assert self.graph is not None
        ticket = np.floor(rng.random(len(ages), np.float32) * np.minimum(order[:, -1], np.float32(self.k)))
        places = (order > ticket[:, None]).argmax(1)
        places += np.arange(0, ages.size, ages.shape[1])
        return self.graph.table.slots_aged(ages.reshape(-1).take(places))[:, None]

    def _graph(self, storage: Storage) -> NeighborGraph:
        if self.graph is None and self._made_anew and len(storage):
            self._index(storage)
        if self.graph is None or self.graph.table.written != storage.written:
            seen = 0 if self.graph is None else self.graph.table.written
            raise RuntimeError(f"{storage.written} rows were stored but {seen} observed; call observe after each add")
        return self.graph

    def _columns(self, choices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return which of its first `choices` ``(n,)`` neighbors a row draws, int64 ``(n, draw)``; −1 where too few."""
        if self.draw == 1:
            return np.where(choices > 0, (rng.random(len(choices)) * choices).astype(np.int64), -1)[:, None]
        ticket = rng.random((len(choices), self.k))
        ticket[np.arange(self.k) >= choices[:, None]] = 2.0
        order = np.argsort(ticket, axis=1, kind="stable")[:, : self.draw]
        return np.where(np.arange(order.shape[1]) < choices[:, None], order, -1)

    def nbytes(self, capacity: int, features: int) -> int:
        """Return bytes beside a full storage: a list, a scaled copy of z and some numbers per row (on a GPU: none)."""
        return capacity * (8 * self.width + 4 * (features + self._code + 2) + 29)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit; large arrays share memory."""
        if self.graph is None:
            return {"width": self.width, "k": self.k}
        size = {"capacity": self.graph.table.capacity, "features": self.graph.cells.dims}
        size["fixed"] = self.graph.cells.dims - self.graph.scale.free.stop
        return {"width": self.width, "k": self.k, "graph": self.graph.state_dict()} | size

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; where that is of another k, the rows are indexed anew when they are next used."""
        self.graph = self._choices = None
        self._made_anew = int(state["k"]) != self.k or int(state["width"]) != self.width
        if "graph" in state and not self._made_anew:
            size = int(state["capacity"]), int(state["features"])
            self.graph = NeighborGraph(*size, self.k, self.width, int(state.get("fixed", 0)))
            self.graph.load_state_dict(state["graph"])
