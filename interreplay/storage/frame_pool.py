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

from interreplay.transitions import as_tensor

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

    def put(self, obs: Tensor, next_obs: Tensor, episodes: list[int], done: list[bool], written: int) -> Any:
        """Store the frames of n rows with stacks `obs` and `next_obs` ``(n, k, *shape)``, after `written` earlier rows.

        Returns:
            Frame numbers ``(n, k)`` int32 of `obs` and of `next_obs`.
        """
        starts = np.ascontiguousarray(obs.numpy(force=True))
        ends = np.ascontiguousarray(next_obs.numpy(force=True))
        frame_ids = np.empty((2, len(episodes), self.stack), np.int32)
        for row, episode in enumerate(episodes):
            frame_ids[0, row], frame_ids[1, row] = self.put_row(
                starts[row], ends[row], episode, done[row], written + row
            )
        return torch.from_numpy(frame_ids).unbind()

    def put_row(
        self, start: np.ndarray, end: np.ndarray, episode: int, done: bool, write: int
    ) -> tuple[list[int], list[int]]:
        """Store the frames of one row, with contiguous stacks ``(k, *shape)``; see `put`."""
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
        """Return the frames of a state; `are_stacks` avoids a copy, for reading only."""
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
