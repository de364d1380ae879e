"""The store of unrolls: one contiguous record per unroll, and each frame of image stacks once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import get_state_columns
from interreplay.storage.row_table import RowTable
from interreplay.transitions import Observation, as_tensor, join_parts
from interreplay.unrolls.storage.frame_runs import INITIAL_FRAMES, Frames, is_frame_stack
from interreplay.unrolls.storage.insertion import Fifo, Insertion
from interreplay.unrolls.unrolls import PER_UNROLL, TAGS, Unrolls, from_columns, get_attribute_name

GROWTH_DECAY = 0.99
"""Factor by which earlier measurements of the growth of distances are discounted per batch."""
NOTES = np.dtype([("write", np.int64), ("replays", np.int32), ("distance", np.float32), ("seen_at", np.int64)])
"""Metadata of a slot: the write number of its unroll, counting from 0; how often it was drawn; its last measured
distance from the policy, 0 for new unrolls; and the store's clock at that measurement."""


class UnrollStore:
    """Unrolls of equal length T in `capacity` slots; they are returned bit-exactly, with their slots.

    Selectors can draw from it (`interreplay.selection.SlotStore`). The first unrolls define the memory layout. Memory
    is allocated as it is filled and stays on the CPU; batches are moved to the learner's device as a whole.

    Args:
        capacity: Number of unrolls, 1 or more.
        insertion: Chooses the slots of new unrolls; `Fifo()` by default.

    Attributes:
        written: Number of unrolls ever written to a slot.
        offered: Number of unrolls ever added, including those that the insertion did not keep.
        clock: Number of draws so far, the time unit of distances.
        notes: Metadata of each slot ``(capacity,)``, see `NOTES`.
    """

    device = torch.device("cpu")

    def __init__(self, capacity: int, insertion: Insertion | None = None):
        self.capacity = capacity
        self.insertion = insertion or Fifo()
        self.written = 0
        self.offered = 0
        self.clock = 0
        self.notes = np.zeros(self.capacity, NOTES)
        self._grown = 0.0
        self._waited = 0.0
        self._stored = 0
        self._table: Any = None  # a `RowTable` once the columns are known
        self._frames: dict[str, Frames] = {}  # for each part of the observations that is a stack of frames
        self._columns: dict[str, Any] = {}
        self._newest: dict[str, np.ndarray] = {}  # observation and policy output at the newest step

    def __len__(self) -> int:
        return self._stored

    def distances(self, slots: np.ndarray | slice) -> np.ndarray:
        """Return estimates ``(n,)`` float32 of the distances from the policy: last measurements plus growth since."""
        since = (self.clock - self.notes["seen_at"][slots]).astype(np.float32)
        return self.notes["distance"][slots] + np.float32(self.growth) * since

    @property
    def growth(self) -> float:
        """Average growth of distances per tick of the clock, from repeated measurements."""
        return max(0.0, self._grown / (self._waited or 1.0))

    def record_distances(self, slots: np.ndarray, distances: np.ndarray) -> None:
        """Store the measured distances ``(n,)`` of the unrolls in `slots` ``(n,)`` and update their growth."""
        grown = distances - self.notes["distance"][slots]
        waited = self.clock - self.notes["seen_at"][slots]
        self._grown = GROWTH_DECAY * self._grown + float(grown.sum())
        self._waited = GROWTH_DECAY * self._waited + float(waited.sum())
        self.notes["distance"][slots] = distances
        self.notes["seen_at"][slots] = self.clock

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Return the write numbers ``(n,)`` int64 of the unrolls in `slots` ``(n,)``, counting from 0."""
        return torch.from_numpy(self.notes["write"][slots.numpy()])

    # -- writing ----------------------------------------------------------------------------------

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> Tensor:
        """Store unrolls, oldest first, in slots that the insertion chooses.

        Returns:
            Slots ``(B,)`` int64; −1 for unrolls that are not kept.

        Raises:
            ValueError: If shapes or dtypes differ from the first unrolls.
        """
        slots = self.place(unrolls, rng)
        self.write(unrolls, slots)
        return slots

    def place(self, unrolls: Unrolls, rng: np.random.Generator) -> Tensor:
        """Choose slots ``(B,)`` for unrolls as `add` does; must be followed by `write` with the same unrolls."""
        columns = _stored_columns(unrolls)
        given = {name: (_shape(name, column), column.dtype) for name, column in columns.items()}
        if self._table is None:
            self._columns = given
            for name, column in columns.items():
                if get_attribute_name(name) == "obs" and is_frame_stack(column):
                    room = self.capacity * (unrolls.steps + column.shape[2]) + INITIAL_FRAMES
                    self._frames[name] = Frames(tuple(column.shape[3:]), room)
            self._table = self._new_table()
        for name in sorted(given.keys() | self._columns.keys()):
            found = given.get(name, "missing")
            expected = self._columns.get(name, "no such column")
            if found != expected:
                raise ValueError(f"{name} of the unrolls is {found}; expected {expected}, as stored")
        self.offered += unrolls.size
        return torch.from_numpy(self.insertion.slots(self, unrolls.size, rng))

    def _new_table(self) -> RowTable:
        """Return an empty table, with numbers of frames instead of stacks."""
        numbers = {name: (self._columns[name][0][:2], torch.int32) for name in self._frames}
        return RowTable(self.capacity, self._columns | numbers)

    def write(self, unrolls: Unrolls, slots: Tensor) -> None:
        """Write unrolls to `slots` ``(B,)``; unrolls with slot −1 are ignored."""
        live = unrolls.live[:, -1].nonzero()
        newest = int(live[-1]) if len(live) else unrolls.steps - 1
        for name, column in unrolls.columns().items():
            if get_attribute_name(name) in ("obs", "policy"):
                self._newest[name] = column[newest, -1].numpy(force=True).copy()
        kept = slots >= 0
        if not bool(kept.all()):
            unrolls = unrolls[kept]
            slots = slots[kept]
        if not unrolls.size:
            return
        index = slots.numpy()
        occupied = index[index < self._stored]
        where = as_slice(index)
        for name, tensor in _stored_columns(unrolls).items():
            values = tensor.numpy(force=True)
            array = self._table.array(name)
            if name in self._frames:
                self._frames[name].release(array[occupied])
                values = self._frames[name].put(values)
            array[where] = values if _is_per_unroll(name) else values.swapaxes(0, 1)
        notes = np.zeros(len(index), NOTES)
        notes["write"] = np.arange(self.written, self.written + len(index))
        notes["seen_at"] = self.clock
        self.notes[index] = notes
        self.written += len(index)
        self._stored = max(self._stored, int(index.max()) + 1)

    # -- reading ----------------------------------------------------------------------------------

    def __getitem__(self, slots: Tensor) -> Unrolls:
        """Return the unrolls in `slots` ``(n,)`` with slots and write numbers, as time-first views."""
        columns = self._table.take(slots, self._table.fields)
        for name, column in columns.items():
            columns[name] = self._restore(name, column)
        columns["slots"] = slots
        columns["writes"] = self.write_numbers(slots)
        columns["origins"] = torch.full_like(slots, -1)
        columns["fresh"] = torch.zeros(len(slots), dtype=torch.bool)
        columns["weights"] = torch.ones(len(slots))
        return from_columns(columns)

    def column(self, name: str, slots: Tensor) -> Tensor:
        """Return one column of the unrolls in `slots` ``(n,)``, time first, such as ``"policy"``."""
        found = torch.from_numpy(self._table.array(name)[slots.numpy()])
        return self._restore(name, found)

    def _restore(self, name: str, column: Tensor) -> Tensor:
        """Return a column of the table with time as first dimension, if it has one, and stacks of frames."""
        if not _is_per_unroll(name):
            column = column.transpose(0, 1)
        return self._frames[name].get(column) if name in self._frames else column

    def observations(self, slots: Tensor) -> Observation:
        """Return the observations ``(T, n, ...)`` of all steps of the unrolls in `slots` ``(n,)``."""
        parts = {}
        for name in self._columns:
            attribute, _, part = name.partition(".")
            if attribute == "obs":
                parts[part] = self.column(name, slots)[:-1]
        return join_parts(parts)

    def newest(self) -> tuple[Tensor, Observation]:
        """Return the policy output ``(1, F)`` and the observation ``(1, ...)`` at the newest live step."""
        found = {name: torch.from_numpy(value)[None] for name, value in self._newest.items()}
        policy = found.pop("policy")
        return policy, join_parts({name.partition(".")[2]: value for name, value in found.items()})

    # -- memory and state -------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory in bytes of the slots in use, metadata and frames."""
        metadata = self.notes.nbytes + self.insertion.nbytes(self.capacity)
        if self._table is None:
            return metadata
        return self._table.width * self._stored + self._frame_bytes + metadata

    @property
    def _frame_bytes(self) -> int:
        return sum(frames.nbytes for frames in self._frames.values())

    def estimate(self, unrolls: Unrolls) -> int:
        """Return the memory in bytes when full of unrolls like these, which are not added."""
        like = UnrollStore(min(unrolls.size, self.capacity))
        like.add(unrolls[: like.capacity], np.random.default_rng(0))
        each = like._table.width + like._frame_bytes / like.capacity
        notes = self.notes.nbytes + self.insertion.nbytes(self.capacity)
        return int(each * self.capacity) + notes

    def state_view(self) -> dict[str, Any]:
        """Return everything needed to resume; arrays share memory with this object."""
        notes = {name: self.notes[name][: self._stored] for name in NOTES.names or ()}
        state: dict[str, Any] = {
            "capacity": self.capacity,
            "written": self.written,
            "offered": self.offered,
            "clock": self.clock,
            "stored": self._stored,
            "notes": notes | {"grown": self._grown, "waited": self._waited},
            "insertion": self.insertion.state_view(),
        }
        if self._table is not None:
            state["columns"] = {}
            for name, (shape, dtype) in self._columns.items():
                state["columns"][name] = (list(shape), str(dtype).removeprefix("torch."))
            state["rows"] = self._table.rows[: self._stored]
            state["newest"] = self._newest
            state["frames"] = {name: frames.state_view() for name, frames in self._frames.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: If it belongs to a store of another capacity.
        """
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the state has {state['capacity']} slots for unrolls; expected {self.capacity}")
        self.written = int(state["written"])
        self.offered = int(state["offered"])
        self.clock = int(state["clock"])
        self._stored = int(state["stored"])
        self.notes = np.zeros(self.capacity, NOTES)
        for name in NOTES.names or ():
            self.notes[name][: self._stored] = as_tensor(state["notes"][name]).numpy()
        self._grown = float(state["notes"]["grown"])
        self._waited = float(state["notes"]["waited"])
        self.insertion.load_state_dict(state["insertion"])
        self._table = None
        self._newest = {}
        self._frames = {}
        if "rows" in state:
            self._columns = get_state_columns(state)
            self._frames = {name: Frames.from_state(frames) for name, frames in state["frames"].items()}
            self._table = self._new_table()
            self._table.rows[: self._stored] = as_tensor(state["rows"])
            self._newest = {name: as_tensor(value).numpy().copy() for name, value in state["newest"].items()}


def _stored_columns(unrolls: Unrolls) -> dict[str, Tensor]:
    columns = unrolls.columns()
    for name in (*TAGS, "fresh"):
        columns.pop(name, None)
    return columns


def _is_per_unroll(name: str) -> bool:
    return get_attribute_name(name) in PER_UNROLL


def _shape(name: str, column: Tensor) -> tuple[int, ...]:
    """Return the shape of one unroll's part of a column, with time first if it has one."""
    if _is_per_unroll(name):
        return tuple(column.shape[1:])
    return (column.shape[0], *column.shape[2:])


def as_slice(index: np.ndarray) -> np.ndarray | slice:
    """Return contiguous indices as a slice, which is faster to read and write."""
    if len(index) and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
