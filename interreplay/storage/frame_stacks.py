"""Stacks of frames, in which every frame is stored once.

With frame stacking (Mnih et al. 2015) an observation is the last k images, so that each image is part of k observations
and k next observations. Here a row contains the numbers of its frames, and the frames are stored separately.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns, get_column_name, get_columns
from interreplay.storage.linked_rows import LinkedRows
from interreplay.transitions import Transitions, as_tensor, join_parts, observation_parts

START = 1024
"""Minimum room for frames in addition to one per row."""
SPARE = 4
"""Rows per further frame of that room. Each episode adds a frame or two, so that the room is enough unless episodes are
short. Growing is expensive: frames are copied, and take twice the memory meanwhile."""
LONGEST = 15
"""Maximum number of frames of a stack; a longer axis belongs to an image, and its first rows may be of one color."""


def are_stacks(obs: Tensor, next_obs: Tensor) -> bool:
    """Return whether observations ``(n, k, H, W, ...)`` are stacks of bytes that all advance by one frame."""
    return (
        obs.dtype == torch.uint8
        and obs.ndim >= 4
        and 2 <= obs.shape[1] <= LONGEST
        and len(obs) > 0
        and bool(torch.equal(obs[:, 1:], next_obs[:, :-1]))
    )


def _add_room(frames: int) -> int:
    """Return a number of frames with room for more."""
    return frames + frames // SPARE + START


class FramePool:
    """Frames by number, with the number of rows and running episodes that refer to each.

    A stack is compared with the newest one of its episode: usually it is the same one, or it advanced by one frame.
    Other stacks are compared frame by frame. All rows are read as they were added; rows without common frames take as
    much memory as whole stacks.

    Args:
        stack: Frames per observation k.
        rows: Number of rows of the ring; each usually adds one frame.
    """

    def __init__(self, stack: int, shape: tuple[int, ...], rows: int):
        self.stack = stack
        self.shape = tuple(shape)
        self._pixels = self._zeros(_add_room(rows))
        self._holders = [0] * len(self._pixels)  # accessing a list takes a fifth of the time of an array
        self._free: list[int] = []
        self._top = 0
        # For each episode, the write number of its newest row, and the bytes and numbers of its newest stack. After a
        # row that ends the episode, the bytes are dropped; they are read again if rows with the same id follow. Oldest
        # rows first.
        self._running: dict[int, tuple[int, bytearray | None, list[int]]] = {}

    def _zeros(self, count: int) -> Tensor:
        return torch.from_numpy(np.zeros((count, *self.shape), np.uint8))  # unused memory is not taken

    @property
    def nbytes(self) -> int:
        """Bytes of the frames in use and of free ones."""
        return self._top * int(np.prod(self.shape, dtype=np.int64))

    def put_row(
        self, start: np.ndarray, end: np.ndarray, episode: int, done: bool, write: int
    ) -> tuple[list[int], list[int]]:
        """Store the frames of row `write`, given contiguous stacks ``(k, *shape)`` before and after the step.

        Return the frame numbers ``(k,)`` of both.
        """
        _, pixels, last = self._running.pop(episode, (-1, bytearray(), []))
        if pixels is None:
            pixels = bytearray(b"".join(self._pixels[number].numpy().tobytes() for number in last))
        start_ids = last
        if not pixels.startswith(start.data):  # another stack
            start_ids = self._known_or_new(start, pixels, last)
            pixels = bytearray(start.tobytes())
        if pixels.endswith(end[:-1].data):  # the stack advanced by one frame
            end_ids = [*start_ids[1:], self._number(end[-1], pixels, start_ids)]
        else:
            end_ids = self._known_or_new(end, pixels, start_ids)
        np.frombuffer(pixels, np.uint8)[:] = end.reshape(-1)  # in place: allocating memory would take longer
        held = end_ids + end_ids  # by the row and by the episode
        if start_ids is not last:
            held = start_ids + held
        for number in held:
            self._holders[number] += 1
        if start_ids is not last:
            self.drop(last)
        self._running[episode] = write, None if done else pixels, end_ids
        return start_ids, end_ids

    def _known_or_new(self, frames: np.ndarray, pixels: bytearray, ids: list[int]) -> list[int]:
        """Return numbers of frames ``(k, *shape)``: existing ones for frames in a known stack, otherwise new ones."""
        found: dict[bytes, int] = {}
        names = [frame.tobytes() for frame in frames]
        for name, frame in zip(names, frames, strict=True):
            if name not in found:
                found[name] = self._number(frame, pixels, ids)
        return [found[name] for name in names]

    def _number(self, frame: np.ndarray, pixels: bytearray, ids: list[int]) -> int:
        """Return the number of one frame; see `_known_or_new`."""
        for place, number in enumerate(ids):
            if pixels.startswith(frame.data, place * frame.nbytes):
                return number
        if self._free:
            number = self._free.pop()
        else:
            number = self._top
            self._top += 1
            if number == len(self._pixels):
                grown = self._zeros(_add_room(number))
                grown[:number] = self._pixels
                self._holders += [0] * (len(grown) - number)
                self._pixels = grown
        self._pixels.numpy()[number] = frame
        return number

    def drop(self, frame_ids: list[int]) -> None:
        """Release frames, each given once per row or episode that refers to it."""
        holders = self._holders
        for number in frame_ids:
            holders[number] -= 1
            if not holders[number]:
                self._free.append(number)

    def end(self, episode: int) -> None:
        """Release the frames of a running episode."""
        self.drop(self._running.pop(episode, (-1, None, []))[2])

    def forget_before(self, write: int) -> None:
        """End the episodes without stored rows."""
        while self._running:
            episode = next(iter(self._running))
            if self._running[episode][0] >= write:
                return
            self.end(episode)

    def get(self, frame_ids: Tensor) -> Tensor:
        """Return stacks ``(..., k, *shape)`` of frame ids ``(..., k)``."""
        flat = self._pixels.index_select(0, frame_ids.reshape(-1).long())
        return flat.reshape(*frame_ids.shape, *self.shape)

    def get_both(self, starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stacks ``(n, k, *shape)`` before and after steps, of frame ids ``(n, k)``.

        If all advanced by one frame, the k + 1 frames of each step are read once, and both share memory.
        """
        if not torch.equal(starts[:, 1:], ends[:, :-1]):
            return self.get(starts), self.get(ends)
        frames = self.get(torch.cat([starts, ends[:, -1:]], dim=1))
        return frames[:, :-1], frames[:, 1:]

    def state(self) -> dict[str, Any]:
        """Return the state; the frames share memory."""
        newest = []
        known: list[list[int]] = []
        for write, _, frame_ids in self._running.values():
            newest.append(write)
            known.append(frame_ids)
        return {
            "stack": self.stack,
            "pixels": self._pixels[: self._top],
            "holders": np.array(self._holders[: self._top], np.int64),
            "episodes": np.array(list(self._running), np.int64),
            "newest": np.array(newest, np.int64),
            "counts": np.array(list(map(len, known)), np.int64),
            "known": np.array(list(chain.from_iterable(known)), np.int64),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], rows: int, shared: bool = False) -> FramePool:
        """Return the frames of a state; `shared` avoids a copy, for reading only."""
        pixels = as_tensor(state["pixels"])
        made = cls(int(state["stack"]), tuple(pixels.shape[1:]), max(rows, len(pixels)))
        made._top = len(pixels)
        if shared:
            made._pixels = pixels
        else:
            made._pixels[: made._top] = pixels
        made._holders[: made._top] = np.asarray(state["holders"]).tolist()
        made._free = np.flatnonzero(np.asarray(state["holders"]) == 0).tolist()
        counts = np.asarray(state["counts"])
        known = np.split(np.asarray(state["known"]), np.cumsum(counts)[:-1])[: len(counts)]
        episodes = np.asarray(state["episodes"]).tolist()
        for episode, newest, frames in zip(episodes, np.asarray(state["newest"]).tolist(), known, strict=True):
            made._running[episode] = newest, None, frames.tolist()
        return made


class FrameStacks:
    """A `FramePool` for each part that is a stack of frames.

    The first rows determine which parts are stacks. The rows of the chain contain the numbers of their frames.
    """

    def __init__(self) -> None:
        self.frames: dict[str, FramePool] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return sum(pool.nbytes for pool in self.frames.values())

    def begin(self, transitions: Transitions, capacity: int) -> Columns:
        """Inspect the first rows of a storage of `capacity` rows; return the columns of its chain."""
        ends = observation_parts(transitions.next_obs)
        for name, part in observation_parts(transitions.obs).items():
            if are_stacks(part, ends[name]):
                self.frames[name] = FramePool(part.shape[1], tuple(part.shape[2:]), capacity)
        columns = get_columns(transitions)
        for name, frames in self.frames.items():
            columns[get_column_name(name)] = ((frames.stack,), torch.int32)
        return columns

    def append(self, chain: LinkedRows, transitions: Transitions, written: int) -> None:
        """Write rows in the stored dtypes into the next slots of the chain, with numbers for stacks.

        They do not extend beyond its end; `written` rows were written before.
        """
        n = len(transitions)
        start = written % chain.capacity
        replaced = range(0)
        if written >= chain.capacity:
            replaced = range(start, start + n)
        numbered = self._number_stacks(transitions, written)
        self._release(chain, replaced, written + n - chain.capacity)
        chain.append(numbered, written)

    def _number_stacks(self, transitions: Transitions, written: int) -> Transitions:
        """Return rows with numbers instead of stacks."""
        starts = observation_parts(transitions.obs)
        ends = observation_parts(transitions.next_obs)
        episodes = [0] * len(transitions)
        if transitions.episode is not None:
            episodes = transitions.episode.tolist()
        done = (transitions.terminated | transitions.truncated).tolist()
        for name, frames in self.frames.items():
            before = np.ascontiguousarray(starts[name].numpy(force=True))
            after = np.ascontiguousarray(ends[name].numpy(force=True))
            numbers = np.empty((2, len(episodes), frames.stack), np.int32)
            for row, episode in enumerate(episodes):
                numbers[:, row] = frames.put_row(before[row], after[row], episode, done[row], written + row)
            starts[name], ends[name] = torch.from_numpy(numbers).unbind()
        return transitions.replace(obs=join_parts(starts), next_obs=join_parts(ends))

    def _release(self, chain: LinkedRows, replaced: range, before: int) -> None:
        """Release the frames of replaced rows, and of episodes without rows from write number `before` on."""
        rows, following = chain.read(torch.arange(replaced.start, replaced.stop))
        for name, frames in self.frames.items():
            column = get_column_name(name)
            frames.drop(np.concatenate([rows[column], following[column]], axis=1).ravel().tolist())
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
        """Return the stacks of a storage's state; `shared` as in `FramePool.from_state`."""
        made = cls()
        for name, frames in state.get("frames", {}).items():
            made.frames[name] = FramePool.from_state(frames, rows, shared)
        return made
