"""The store: unrolls in slots, each unroll of vectors one run of bytes, frames of image stacks once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns, columns_of_state
from interreplay.storage.row_table import RowTable
from interreplay.storage.state_copies import copy_arrays
from interreplay.transitions import Observation, as_tensor, join_parts
from interreplay.unrolls.storage.frame_runs import FrameRuns
from interreplay.unrolls.storage.insertion import Fifo, Insertion
from interreplay.unrolls.storage.slot_notes import SlotNotes
from interreplay.unrolls.unrolls import PER_UNROLL, TAGS, Unrolls, of_columns, root

UNSTORED = frozenset({*TAGS, "fresh"})
CPU = torch.device("cpu")


class UnrollStore:
    """Unrolls of one length T in `capacity` slots. What was added comes back bit for bit, tagged with where it lies.

    It is what selectors draw from (`interreplay.selection.Stored`). Memory is laid out by the first unrolls that are
    added, and taken as it is filled. It lies on the processor: batches go to the learner's device as a whole.

    Args:
        capacity: Unrolls, 1 or more.
        insertion: Which slots new ones take; `Fifo()` by default.

    Attributes:
        written: Unrolls ever written to a slot.
        offered: Unrolls ever added, those that the insertion did not keep included.
        clock: Draws so far, by which distances are dated.
        notes: What is known of each slot.

    Raises:
        ValueError: When the capacity is none.
    """

    device = CPU

    def __init__(self, capacity: int, insertion: Insertion | None = None):
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected 1 or more unrolls")
        self.capacity, self.insertion = int(capacity), insertion if insertion is not None else Fifo()
        self.written = self.offered = self.clock = 0
        self.notes = SlotNotes(self.capacity)
        self._stored = 0
        self._table: RowTable | None = None
        self._frames = FrameRuns(self.capacity)
        self._newest: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return self._stored

    def distances(self, slots: np.ndarray | slice) -> np.ndarray:
        """Return how far the unrolls in `slots` ``(n,)`` are from the policy, ``(n,)`` float32, by `SlotNotes`."""
        return self.notes.estimated(slots, self.clock)

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Return when the unrolls in `slots` ``(n,)`` were written, counting from 0, int64 ``(n,)``."""
        return torch.from_numpy(self.notes.write[slots.numpy()])

    # -- writing ----------------------------------------------------------------------------------

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> Tensor:
        """Store unrolls, oldest first, in slots that the insertion chooses.

        Returns:
            Slots ``(B,)`` int64; −1 for those that are not kept.

        Raises:
            ValueError: When they differ in kind from those that came first.
        """
        slots = self.place(unrolls, rng)
        self.write(unrolls, slots)
        return slots

    def place(self, unrolls: Unrolls, rng: np.random.Generator) -> Tensor:
        """Choose slots ``(B,)`` for unrolls as `add` does; `write` has to follow with the same ones."""
        self._check(unrolls)
        self.offered += unrolls.size
        return torch.from_numpy(self.insertion.slots(self, unrolls.size, rng))

    def write(self, unrolls: Unrolls, slots: Tensor) -> None:
        """Write unrolls to `slots` ``(B,)``; those with −1 are passed over."""
        assert self._table is not None
        self._remember(unrolls)
        kept = slots >= 0
        if not bool(kept.all()):
            unrolls, slots = unrolls[kept], slots[kept]
        if not unrolls.size:
            return
        index = slots.numpy()
        replaced = {name: self._table.array(name)[index[index < self._stored]] for name in self._frames.frames}
        columns = {name: column.numpy(force=True) for name, column in _stored(unrolls).items()}
        where = _as_slice(index)
        for name, column in self._frames.put(columns, replaced).items():
            self._table.array(name)[where] = column if root(name) in PER_UNROLL else column.swapaxes(0, 1)
        self.notes.begin(index, self.written, self.clock)
        self.written += len(index)
        self._stored = max(self._stored, int(index.max()) + 1)

    def _check(self, unrolls: Unrolls) -> None:
        given = {name: (_shape(name, column), column.dtype) for name, column in _stored(unrolls).items()}
        if self._table is None:
            self._begin(given, unrolls)
        elif given != self._columns:
            wrong = sorted(
                name for name in given.keys() | self._columns.keys() if given.get(name) != self._columns.get(name)
            )
            got, expected = given.get(wrong[0], "missing"), self._columns.get(wrong[0], "no such column")
            raise ValueError(f"{wrong[0]} of the unrolls is {got}; stored are {expected}")

    def _begin(self, columns: Columns, unrolls: Unrolls) -> None:
        self._columns = columns
        self._frames.begin(_stored(unrolls))
        self._table = RowTable(self.capacity, self._frames.table_columns(columns), CPU)

    def _remember(self, unrolls: Unrolls) -> None:
        """Keep what the policy gave where the agent acted last, and what it saw there, stored or not."""
        seen = {name: column for name, column in unrolls.columns().items() if root(name) in ("obs", "policy")}
        self._newest = {name: c[unrolls.steps - 1, -1].numpy(force=True).copy() for name, c in seen.items()}

    # -- reading ----------------------------------------------------------------------------------

    def __getitem__(self, slots: Tensor) -> Unrolls:
        """Return the unrolls in `slots` ``(n,)``, tagged with slots and write numbers; time first in shape alone."""
        assert self._table is not None
        columns = self._table.take(slots, self._table.fields)
        columns = {name: c if root(name) in PER_UNROLL else c.transpose(0, 1) for name, c in columns.items()}
        columns = self._frames.get(columns)
        columns |= {"slots": slots, "writes": self.write_numbers(slots), "origins": torch.full_like(slots, -1)}
        columns["fresh"] = torch.zeros(len(slots), dtype=torch.bool)
        return of_columns(columns | {"weights": torch.ones(len(slots))})

    def column(self, name: str, slots: Tensor) -> Tensor:
        """Return one column of the unrolls in `slots` ``(n,)``, time first, such as ``"policy"``."""
        assert self._table is not None
        found = torch.from_numpy(self._table.array(name)[slots.numpy()])
        found = found if root(name) in PER_UNROLL else found.transpose(0, 1)
        return self._frames.get({name: found})[name]

    def observations(self, slots: Tensor) -> Observation:
        """Return the observations ``(T, n, ...)`` at which the unrolls in `slots` ``(n,)`` acted."""
        names = [name for name in self._columns if root(name) == "obs"]
        return join_parts({name.partition(".")[2]: self.column(name, slots)[:-1] for name in names})

    def newest(self) -> tuple[Tensor, Observation]:
        """Return what the policy gave at the newest step ``(1, F)``, and the observation there ``(1, ...)``."""
        found = {name: torch.from_numpy(value)[None] for name, value in self._newest.items()}
        return found.pop("policy"), join_parts({name.partition(".")[2]: value for name, value in found.items()})

    # -- memory and state -------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the slots in use, of notes and of frames."""
        rows = 0 if self._table is None else self._table.width * self._stored
        return rows + self._frames.nbytes + SlotNotes.nbytes(self.capacity) + self.insertion.nbytes(self.capacity)

    def estimate(self, unrolls: Unrolls) -> int:
        """Return bytes of a store that is full of unrolls like these, which are not added."""
        like = UnrollStore(min(unrolls.size, self.capacity))
        like.add(unrolls[: like.capacity], np.random.default_rng(0))
        assert like._table is not None
        each = like._table.width + like._frames.nbytes / like.capacity
        notes = SlotNotes.nbytes(self.capacity) + self.insertion.nbytes(self.capacity)
        return int(each * self.capacity) + notes

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` without copying."""
        names = ("capacity", "written", "offered", "clock")
        state: dict[str, Any] = {name: getattr(self, name) for name in names} | {"stored": self._stored}
        state |= {"notes": self.notes.state_view(self._stored), "insertion": self.insertion.state_view()}
        if self._table is not None:
            named = {
                name: (list(shape), str(dtype).removeprefix("torch.")) for name, (shape, dtype) in self._columns.items()
            }
            state |= {"columns": named, "rows": self._table.rows[: self._stored], "newest": self._newest}
            state["frames"] = self._frames.state_view()
        return state

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ValueError: When it is that of a store of another capacity.
        """
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the state is of {state['capacity']} slots for unrolls; expected {self.capacity}")
        self.written, self.offered, self.clock = (int(state[name]) for name in ("written", "offered", "clock"))
        self._stored = int(state["stored"])
        self.notes = SlotNotes(self.capacity)
        self.notes.load_state_dict(state["notes"])
        self.insertion.load_state_dict(state["insertion"])
        self._table, self._newest, self._frames = None, {}, FrameRuns(self.capacity)
        if "rows" in state:
            self._columns = columns_of_state(state)
            self._frames.load_state_dict(state["frames"])
            self._table = RowTable(self.capacity, self._frames.table_columns(self._columns), CPU)
            self._table.rows[: self._stored] = as_tensor(state["rows"])
            self._newest = {name: as_tensor(value).numpy().copy() for name, value in state["newest"].items()}


def _stored(unrolls: Unrolls) -> dict[str, Tensor]:
    return {name: column for name, column in unrolls.columns().items() if name not in UNSTORED}


def _shape(name: str, column: Tensor) -> tuple[int, ...]:
    """Return the shape of one unroll's part of a column: time first, where it has one."""
    return tuple(column.shape[1:] if root(name) in PER_UNROLL else (column.shape[0], *column.shape[2:]))


def _as_slice(index: np.ndarray) -> np.ndarray | slice:
    """Return slots as a slice where they follow each other: writing takes less time."""
    if len(index) and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
