"""Stacks of frames, of which every frame is kept once.

Frame stacking (Mnih et al. 2015) makes an observation of the last k images, so that each image comes up in k of them,
and again in k next observations. Here a row holds the ids of its frames, and the frames lie beside the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.transitions import as_tensor

START = 1024
"""Frames that there is room for at first beside one per row."""


LONGEST = 15
"""Frames that a stack has at most: a longer side is one of an image, which may well be of one color at first."""


def shared(obs: Tensor, next_obs: Tensor) -> bool:
    """Return whether observations ``(n, k, H, W, ...)`` are stacks of bytes that all move on by one frame."""
    return (
        obs.dtype == torch.uint8
        and obs.ndim >= 4
        and 2 <= obs.shape[1] <= LONGEST
        and len(obs) > 0
        and bool(torch.equal(obs[:, 1:], next_obs[:, :-1]))
    )


class FramePool:
    """Frames by number, with how many rows and running episodes hold each.

    A frame is known again by its bytes, among those of the stack that its episode ended with so far. Rows of any
    kind come back as they were; only where they share nothing do they take as much room as whole stacks.

    Args:
        stack: Frames per observation k.
        shape: Of one frame.
        rows: Number of rows of the ring, each of which brings one frame as a rule.
        device: Torch device.
    """

    def __init__(self, stack: int, shape: tuple[int, ...], rows: int, device: torch.device):
        self.stack, self.shape, self.device = stack, tuple(shape), device
        self._pixels = self._room(rows + START)
        self._refcounts = np.zeros(len(self._pixels), np.int64)
        self._free: list[int] = []
        self._top = 0
        # Of each running episode, the write number of its newest row and the stack that it ended with.
        self._running: dict[int, tuple[int, dict[bytes, int]]] = {}

    def _room(self, count: int) -> Tensor:
        if self.device.type == "cpu":  # memory never written to is not taken
            return torch.from_numpy(np.zeros((count, *self.shape), np.uint8))
        return torch.zeros((count, *self.shape), dtype=torch.uint8, device=self.device)

    @property
    def nbytes(self) -> int:
        """Bytes of the frames in use and those that were."""
        return self._top * int(np.prod(self.shape, dtype=np.int64))

    def put(self, obs: Tensor, next_obs: Tensor, episodes: list[int], done: list[bool], written: int) -> Any:
        """Keep the frames of n rows.

        Args:
            obs: Stacks ``(n, k, *shape)``.
            next_obs: Likewise.
            episodes: Ids of the rows.
            done: Whether a row ends its episode.
            written: Number of rows written before.

        Returns:
            Numbers ``(n, k)`` int32 of the frames of both.
        """
        starts, ends = obs.numpy(force=True), next_obs.numpy(force=True)
        frame_ids = np.empty((2, *obs.shape[:2]), np.int32)
        for row, episode in enumerate(episodes):
            _, known = self._running.pop(episode, (-1, {}))
            frame_ids[0, row], now = self._frame_ids(starts[row], known)
            frame_ids[1, row], then = self._frame_ids(ends[row], now)
            np.add.at(self._refcounts, frame_ids[:, row].reshape(-1), 1)
            if not done[row]:
                self._hold(then)
                self._running[episode] = written + row, then
            self._drop(np.fromiter(known.values(), np.int64))
        return torch.from_numpy(frame_ids[0]).to(self.device), torch.from_numpy(frame_ids[1]).to(self.device)

    def _frame_ids(self, frames: np.ndarray, known: dict[bytes, int]) -> tuple[list[int], dict[bytes, int]]:
        """Return numbers of the frames of one stack, those in `known` as there, and these by their bytes."""
        found: dict[bytes, int] = {}
        names = [frame.tobytes() for frame in frames]
        for name, frame in zip(names, frames, strict=True):
            if name not in found:
                found[name] = known[name] if name in known else self._new(frame)
        return [found[name] for name in names], found

    def _new(self, frame: np.ndarray) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number, self._top = self._top, self._top + 1
            if number == len(self._pixels):
                self._grow()
        self._pixels[number] = torch.from_numpy(frame)
        return number

    def _grow(self) -> None:
        pixels, refcounts = self._room(2 * len(self._pixels)), np.zeros(2 * len(self._refcounts), np.int64)
        pixels[: len(self._pixels)], refcounts[: len(self._refcounts)] = self._pixels, self._refcounts
        self._pixels, self._refcounts = pixels, refcounts

    def _hold(self, known: dict[bytes, int]) -> None:
        np.add.at(self._refcounts, np.fromiter(known.values(), np.int64), 1)

    def _drop(self, frame_ids: np.ndarray) -> None:
        np.subtract.at(self._refcounts, frame_ids, 1)
        self._free += np.unique(frame_ids[self._refcounts[frame_ids] == 0]).tolist()

    def release(self, frame_ids: Tensor) -> None:
        """Let go of frames, ``(...)`` frame ids, one for each row that held one."""
        self._drop(frame_ids.numpy(force=True).reshape(-1).astype(np.int64))

    def end(self, episode: int) -> None:
        """Let go of what a running episode holds."""
        _, known = self._running.pop(episode, (-1, {}))
        self._drop(np.fromiter(known.values(), np.int64))

    def forget_before(self, write: int) -> None:
        """End the episodes of which no row is stored any more."""
        for episode in [e for e, (newest, _) in self._running.items() if newest < write]:
            self.end(episode)

    def get(self, frame_ids: Tensor) -> Tensor:
        """Return stacks ``(..., k, *shape)`` of frame ids ``(..., k)``."""
        flat = self._pixels.index_select(0, frame_ids.reshape(-1).long())
        return flat.reshape(*frame_ids.shape, *self.shape)

    def state(self) -> dict[str, Any]:
        """Return everything kept; the arrays share memory."""
        running = self._running.items()
        return {
            "stack": self.stack,
            "pixels": self._pixels[: self._top],
            "holders": self._refcounts[: self._top],
            "episodes": np.array([episode for episode, _ in running], np.int64),
            "newest": np.array([newest for _, (newest, _) in running], np.int64),
            "counts": np.array([len(known) for _, (_, known) in running], np.int64),
            "known": np.array([n for _, (_, known) in running for n in known.values()], np.int64),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any], rows: int, device: torch.device) -> FramePool:
        """Return the frames of a state."""
        pixels = as_tensor(state["pixels"])
        made = cls(int(state["stack"]), tuple(pixels.shape[1:]), max(rows, len(pixels)), device)
        made._top = len(pixels)
        made._pixels[: made._top], made._refcounts[: made._top] = pixels.to(device), np.asarray(state["holders"])
        made._free = np.flatnonzero(made._refcounts[: made._top] == 0).tolist()
        frame_ids = iter(np.asarray(state["known"]).tolist())
        columns = (np.asarray(state[name]).tolist() for name in ("episodes", "newest", "counts"))
        for episode, newest, count in zip(*columns, strict=True):
            known = {pixels[n].numpy(force=True).tobytes(): n for n in (next(frame_ids) for _ in range(count))}
            made._running[episode] = newest, known
        return made
