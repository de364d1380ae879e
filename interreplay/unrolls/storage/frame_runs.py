"""Image stacks in unrolls, with each frame stored once.

An unroll of T steps with stacks of k images usually shows T + k different frames: k at the start and one per step. If a
stack does not continue the previous one, after a reset within the unroll, its new frames are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.frame_stacks import LONGEST
from interreplay.transitions import as_tensor

INITIAL_FRAMES = 1024
"""Initial number of frames in addition to T + k per unroll."""


class Frames:
    """The frames of one column of stacks by number; unrolls do not share frames.

    The table of the store contains the numbers ``(T + 1, k)`` of the frames instead of the stacks of an unroll.
    """

    def __init__(self, shape: tuple[int, ...], room: int):
        self.shape = shape
        self._pixels = np.zeros((room, *shape), np.uint8)  # unused memory is not allocated
        self._free = np.empty(0, np.int32)
        self._top = 0

    @property
    def nbytes(self) -> int:
        """Memory in bytes of all frames that were ever in use."""
        return self._top * int(np.prod(self.shape, dtype=np.int64))

    def release(self, numbers: np.ndarray) -> None:
        """Free the frames of whole unrolls by number."""
        self._free = np.concatenate([self._free, np.unique(numbers).astype(np.int32)])

    def put(self, stacks: np.ndarray) -> np.ndarray:
        """Store the frames of stacks ``(T + 1, n, k, *shape)`` and return their numbers ``(T + 1, n, k)`` int32."""
        numbers = np.empty(stacks.shape[:3], np.int32)
        numbers[0] = self._store_new(stacks[0].reshape(-1, *self.shape)).reshape(numbers.shape[1:])
        for now in range(1, len(stacks)):
            moved = continues(stacks[now - 1], stacks[now])
            if moved.all():
                numbers[now, :, :-1] = numbers[now - 1, :, 1:]
                numbers[now, :, -1] = self._store_new(stacks[now, :, -1])
                continue
            numbers[now, moved, :-1] = numbers[now - 1, moved, 1:]
            numbers[now, moved, -1] = self._store_new(stacks[now, moved, -1])
            for unroll in np.flatnonzero(~moved):
                known = dict(zip(map(bytes, stacks[now - 1, unroll]), numbers[now - 1, unroll], strict=True))
                for position, frame in enumerate(stacks[now, unroll]):
                    content = bytes(frame)
                    if content not in known:
                        known[content] = self._store_new(frame[None])[0]
                    numbers[now, unroll, position] = known[content]
        return numbers

    def _store_new(self, frames: np.ndarray) -> np.ndarray:
        """Store frames ``(n, *shape)`` and return their numbers ``(n,)``."""
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
        """Return the stacks ``(..., k, *shape)`` of frame numbers ``(..., k)``."""
        return torch.from_numpy(self._pixels.take(numbers.numpy(), axis=0))

    def state_view(self) -> dict[str, Any]:
        return {"pixels": self._pixels[: self._top], "free": self._free}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Frames:
        """Return the frames of a state."""
        pixels = as_tensor(state["pixels"]).numpy()
        made = cls(pixels.shape[1:], len(pixels) + INITIAL_FRAMES)
        made._top = len(pixels)
        made._free = as_tensor(state["free"]).numpy().copy()
        made._pixels[: made._top] = pixels
        return made


def continues(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return which stacks ``(n, k, *shape)`` start with the last k − 1 frames of the previous stacks, ``(n,)``."""
    n, k = before.shape[:2]
    previous = before.reshape(n, -1)
    frame = previous.shape[1] // k
    previous = previous[:, frame:]
    following = after.reshape(n, -1)[:, :-frame]
    if frame % 8 == 0:  # compare eight bytes at once
        previous = previous.view(np.uint64)
        following = following.view(np.uint64)
    return (previous == following).all(axis=1)


def is_frame_stack(obs: Tensor) -> bool:
    """Return whether observations ``(T + 1, B, k, H, W, ...)`` are byte stacks that shift in half of the steps."""
    if obs.dtype != torch.uint8 or obs.dim() < 5 or not 2 <= obs.shape[2] <= LONGEST or obs.shape[0] < 2:
        return False
    columns = obs.numpy(force=True)
    moved = [continues(one, other) for one, other in zip(columns[:-1], columns[1:], strict=True)]
    return bool(np.mean(moved) >= 0.5)
