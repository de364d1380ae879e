"""The parts of observations that are stacks of frames: their conversion between the storage and its rows."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import torch

from interreplay.storage.columns import Columns, get_column_name, get_columns
from interreplay.storage.frame_pool import FramePool, are_stacks
from interreplay.storage.linked_rows import LinkedRows
from interreplay.transitions import Transitions, join_parts, observation_parts


class FrameStacks:
    """A `FramePool` for each part that is a stack of frames.

    The first rows determine which parts are stacks. The rows of the chain contain the numbers of their frames.
    """

    def __init__(self) -> None:
        self.frames: dict[str, FramePool] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return sum(map(attrgetter("nbytes"), self.frames.values()))

    def begin(self, transitions: Transitions, capacity: int) -> Columns:
        """Inspect the first rows of a storage of `capacity` rows; return the columns of its chain."""
        ends = observation_parts(transitions.next_obs)
        for name, part in observation_parts(transitions.obs).items():
            if are_stacks(part, ends[name]):
                self.frames[name] = FramePool(part.shape[1], tuple(part.shape[2:]), capacity)
        numbers = {get_column_name(name): ((frames.stack,), torch.int32) for name, frames in self.frames.items()}
        return get_columns(transitions) | numbers

    def append(self, chain: LinkedRows, transitions: Transitions, written: int) -> None:
        """Write rows in the stored dtypes into the next slots of the chain, with numbers for stacks.

        They do not extend beyond its end; `written` rows were written before.
        """
        n = len(transitions)
        start = written % chain.capacity
        replaced = range(0)
        if written >= chain.capacity:
            replaced = range(start, start + n)
        if n == 1:  # takes two thirds of the time
            row = {name: column.numpy(force=True) for name, column in transitions.columns().items()}
            self._number_row(row, written)
            self._release(chain, replaced, written + 1 - chain.capacity)
            return chain.append_row(row, written)
        numbered = self._number_stacks(transitions, written)
        self._release(chain, replaced, written + n - chain.capacity)
        chain.append(numbered, written)

    def _number_row(self, row: dict[str, np.ndarray], written: int) -> None:
        """Replace stacks by numbers in the columns of one row."""
        episode = int(row.get("episode", [0])[0])
        done = bool(row["terminated"][0] or row["truncated"][0])
        for name, frames in self.frames.items():
            column = get_column_name(name)
            next_column = f"next_{column}"
            start = np.ascontiguousarray(row[column])[0]
            end = np.ascontiguousarray(row[next_column])[0]
            frame_ids = np.array([frames.put_row(start, end, episode, done, written)], np.int32)
            row[column], row[next_column] = frame_ids.swapaxes(0, 1)

    def _number_stacks(self, transitions: Transitions, written: int) -> Transitions:
        """Return rows with numbers instead of stacks."""
        starts = observation_parts(transitions.obs)
        ends = observation_parts(transitions.next_obs)
        episodes = [0] * len(transitions)
        if transitions.episode is not None:
            episodes = transitions.episode.tolist()
        done = (transitions.terminated | transitions.truncated).tolist()
        for name, frames in self.frames.items():
            starts[name], ends[name] = frames.put(starts[name], ends[name], episodes, done, written)
        return transitions.replace(obs=join_parts(starts), next_obs=join_parts(ends))

    def _release(self, chain: LinkedRows, replaced: range, before: int) -> None:
        """Release the frames of replaced rows, and of episodes without rows from write number `before` on."""
        for name, frames in self.frames.items():
            if replaced:
                frames.drop(chain.read_integers(replaced, get_column_name(name)))
            frames.forget_before(before)

    def end(self, episode: int) -> None:
        """End an episode that no rows will continue."""
        for frames in self.frames.values():
            frames.end(episode)

    def restore(self, rows: Transitions) -> Transitions:
        """Return rows as they were added."""
        starts = observation_parts(rows.obs)
        ends = observation_parts(rows.next_obs)
        for name, frames in self.frames.items():
            starts[name], ends[name] = frames.get_both(starts[name], ends[name])
        return rows.replace(obs=join_parts(starts), next_obs=join_parts(ends))

    def restored_columns(self, columns: Columns) -> Columns:
        """Return the columns of rows as they are added and read, given the columns of the chain."""
        restored = dict(columns)
        for name, frames in self.frames.items():
            restored[get_column_name(name)] = ((frames.stack, *frames.shape), torch.uint8)
        return restored

    def state(self) -> dict[str, Any]:
        """Return the frames as part of the storage's state."""
        return {"frames": {name: frames.state() for name, frames in self.frames.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Any], rows: int, shared: bool = False) -> FrameStacks:
        """Return the stacks of a storage's state; `are_stacks` as in `FramePool.from_state`."""
        made = cls()
        for name, frames in state.get("frames", {}).items():
            made.frames[name] = FramePool.from_state(frames, rows, shared)
        return made
