"""Image stacks in unrolls, of which every frame is kept once.

An unroll of T steps with stacks of k images shows T + k of them as a rule: k at its start, and a new one per step.
Where a stack does not continue the one before it, after a reset in the middle of an unroll, the frames in it that are
new are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns
from interreplay.storage.frame_pool import LONGEST
from interreplay.transitions import as_tensor
from interreplay.unrolls.unrolls import root

START = 1024
"""Frames that there is room for at first beside T + k per unroll."""


class FrameRuns:
    """`Frames` of each part of the observations that is a stack of them; what the first unrolls show decides which are.

    In the table, the numbers ``(T + 1, k)`` of its frames stand for an unroll's stacks.

    Args:
        capacity: Unrolls that are stored.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.frames: dict[str, Frames] = {}

    def begin(self, columns: Mapping[str, Tensor]) -> None:
        """Look at the columns of the first unrolls."""
        for name, column in columns.items():
            if root(name) == "obs" and stacked(column):
                steps, _, stack = column.shape[:3]
                self.frames[name] = Frames(tuple(column.shape[3:]), self.capacity * (steps - 1 + stack) + START)

    def table_columns(self, columns: Columns) -> Columns:
        """Return the columns of the table for unrolls with these, each as ``((T + 1, k, *shape), dtype)``."""
        return columns | {name: (columns[name][0][:2], torch.int32) for name in self.frames}

    def put(self, columns: dict[str, np.ndarray], replaced: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return columns with numbers in the place of stacks.

        Args:
            columns: Of unrolls, time first.
            replaced: What stands for the stacks of the unrolls whose places they take, ``(m, T + 1, k)`` by name.
        """
        numbered = dict(columns)
        for name, frames in self.frames.items():
            frames.release(replaced[name])
            numbered[name] = frames.put(columns[name])
        return numbered

    def get(self, columns: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return columns of the table, time first, with stacks in the place of numbers."""
        return {name: self.frames[name].get(c) if name in self.frames else c for name, c in columns.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the frames in use and those that were."""
        return sum(frames.nbytes for frames in self.frames.values())

    def state_view(self) -> dict[str, Any]:
        """Return everything kept; arrays share memory."""
        return {name: frames.state_view() for name, frames in self.frames.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        for name, frames in state.items():
            self.frames[name] = Frames(tuple(frames["pixels"].shape[1:]), len(frames["pixels"]) + START)
            self.frames[name].load_state_dict(frames)


class Frames:
    """Frames by number. Those of an unroll belong to it alone, and leave with it.

    Args:
        shape: Of one frame.
        room: Frames that there is room for at first.
    """

    def __init__(self, shape: tuple[int, ...], room: int):
        self.shape = shape
        self._pixels = np.zeros((room, *shape), np.uint8)  # memory never written to is not taken
        self._free = np.empty(0, np.int32)
        self._top = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the frames in use and those that were."""
        return self._top * int(np.prod(self.shape, dtype=np.int64))

    def release(self, numbers: np.ndarray) -> None:
        """Let go of frames by number, of unrolls whole."""
        self._free = np.concatenate([self._free, np.unique(numbers).astype(np.int32)])

    def put(self, stacks: np.ndarray) -> np.ndarray:
        """Keep the frames of stacks ``(T + 1, n, k, *shape)``; returns their numbers ``(T + 1, n, k)`` int32."""
        numbers = np.empty(stacks.shape[:3], np.int32)
        numbers[0] = self._new(stacks[0].reshape(-1, *self.shape)).reshape(numbers.shape[1:])
        for now in range(1, len(stacks)):
            moved = moved_on(stacks[now - 1], stacks[now])
            if moved.all():
                numbers[now, :, :-1] = numbers[now - 1, :, 1:]
                numbers[now, :, -1] = self._new(stacks[now, :, -1])
                continue
            numbers[now, moved, :-1] = numbers[now - 1, moved, 1:]
            numbers[now, moved, -1] = self._new(stacks[now, moved, -1])
            for unroll in np.flatnonzero(~moved):
                known = dict(zip(map(bytes, stacks[now - 1, unroll]), numbers[now - 1, unroll], strict=True))
                numbers[now, unroll] = self._known_or_new(stacks[now, unroll], known)
        return numbers

    def _known_or_new(self, frames: np.ndarray, known: dict[bytes, int]) -> list[int]:
        """Return numbers of the frames ``(k, *shape)`` of one stack, equal ones kept once."""
        names = [bytes(frame) for frame in frames]
        for name, frame in zip(names, frames, strict=True):
            if name not in known:
                known[name] = self._new(frame[None])[0]
        return [known[name] for name in names]

    def _new(self, frames: np.ndarray) -> np.ndarray:
        """Keep frames ``(n, *shape)``; returns their numbers ``(n,)``."""
        reused, self._free = np.split(self._free, [min(len(frames), len(self._free))])
        added = np.arange(self._top, self._top + len(frames) - len(reused), dtype=np.int32)
        self._top += len(added)
        if self._top > len(self._pixels):
            grown = np.zeros((self._top + len(self._pixels) // 4, *self.shape), np.uint8)
            grown[: len(self._pixels)] = self._pixels
            self._pixels = grown
        numbers = np.concatenate([reused, added])
        self._pixels[numbers] = frames
        return numbers

    def get(self, numbers: Tensor) -> Tensor:
        """Return stacks ``(..., k, *shape)`` of numbers ``(..., k)``."""
        return torch.from_numpy(self._pixels.take(numbers.numpy(), axis=0))

    def state_view(self) -> dict[str, Any]:
        """Return everything kept; the frames share memory."""
        return {"pixels": self._pixels[: self._top], "free": self._free}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        pixels = as_tensor(state["pixels"]).numpy()
        self._top, self._free = len(pixels), as_tensor(state["free"]).numpy().copy()
        self._pixels[: self._top] = pixels


def moved_on(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return whether stacks ``(n, k, *shape)`` of bytes show all but the oldest frame of those before, ``(n,)``."""
    n, k = before.shape[:2]
    one, other = before.reshape(n, -1), after.reshape(n, -1)
    frame = one.shape[1] // k
    one, other = one[:, frame:], other[:, :-frame]
    if frame % 8 == 0:  # eight bytes at once
        one, other = one.view(np.uint64), other.view(np.uint64)
    return (one == other).all(axis=1)


def stacked(obs: Tensor) -> bool:
    """Return whether observations ``(T + 1, B, k, H, W, ...)`` are stacks of bytes that move on at most steps."""
    if obs.dtype != torch.uint8 or obs.dim() < 5 or not 2 <= obs.shape[2] <= LONGEST or obs.shape[0] < 2:
        return False
    columns = obs.numpy(force=True)
    moved = [moved_on(one, other) for one, other in zip(columns[:-1], columns[1:], strict=True)]
    return bool(np.mean(moved) >= 0.5)
