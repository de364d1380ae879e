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

    A stack is compared with the one that its episode ended with so far: as a rule it is the same, or it moved on by one
    frame. Only others are searched frame by frame, and hashed.
    Rows of any kind come back as they were; only where they share nothing do they take as much room as whole stacks.

    Args:
        stack: Frames per observation k.
        shape: Of one frame.
        rows: Number of rows of the ring, each of which brings one frame as a rule.
        device: Torch device.
    """

    def __init__(self, stack: int, shape: tuple[int, ...], rows: int, device: torch.device):
        self.stack, self.shape, self.device = stack, tuple(shape), device
        self._pixels = self._room(rows + START)
        self._holders = [0] * len(self._pixels)  # a list is read and written in a fifth of an array's time
        self._free: list[int] = []
        self._top = 0
        # Of each episode the write number of its newest row and the stack that it ended with, with its bytes while it
        # goes on, without after a row that is done: a game may go on after one that ended it for the learner. Oldest
        # rows first.
        self._running: dict[int, tuple[int, bytearray | None, list[int]]] = {}

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
        starts, ends = (np.ascontiguousarray(part.numpy(force=True)) for part in (obs, next_obs))
        frame_ids = np.empty((2, len(episodes), self.stack), np.int32)
        for row, episode in enumerate(episodes):
            frame_ids[0, row], frame_ids[1, row] = self.put_row(
                starts[row], ends[row], episode, done[row], written + row
            )
        numbers = torch.from_numpy(frame_ids)
        return (numbers if self.device.type == "cpu" else numbers.to(self.device)).unbind()

    def put_row(
        self, start: np.ndarray, end: np.ndarray, episode: int, done: bool, write: int
    ) -> tuple[list[int], list[int]]:
        """Do what `put` does for one row, of stacks ``(k, *shape)`` that are contiguous in memory."""
        pixels, last = self._ended_with(episode)
        now = last
        if not pixels.startswith(start.data):  # the whole stack is another
            now, pixels = self._known_or_new(start, pixels, last), bytearray(start.tobytes())
        if pixels.endswith(end[:-1].data):  # it moved on by one
            then = [*now[1:], self._number(end[-1], pixels, now)]
        else:
            then = self._known_or_new(end, pixels, now)
        np.frombuffer(pixels, np.uint8)[:] = end.reshape(-1)  # in place: new memory would take longer than the copy
        if now is last:  # the row holds in its place what the episode held
            self._hold(then + then)
        else:
            self._hold(now + then + then)  # by the row, and by the episode
            self.drop(last)
        self._running[episode] = write, None if done else pixels, then
        return now, then

    def _ended_with(self, episode: int) -> tuple[bytearray, list[int]]:
        """Take away the stack that an episode ended with so far, its bytes and numbers, empty where there is none."""
        _, pixels, ids = self._running.pop(episode, (-1, bytearray(), []))
        if pixels is None:
            pixels = bytearray(b"".join(self._pixels[number].numpy(force=True).tobytes() for number in ids))
        return pixels, ids

    def _known_or_new(self, frames: np.ndarray, pixels: bytearray, ids: list[int]) -> list[int]:
        """Return numbers of frames ``(k, *shape)``: of equal ones in a stack given by bytes and numbers, or new."""
        found: dict[bytes, int] = {}
        names = [frame.tobytes() for frame in frames]
        for name, frame in zip(names, frames, strict=True):
            if name not in found:
                found[name] = self._number(frame, pixels, ids)
        return [found[name] for name in names]

    def _number(self, frame: np.ndarray, pixels: bytearray, ids: list[int]) -> int:
        """Return the number of one frame likewise."""
        for place, number in enumerate(ids):
            if pixels.startswith(frame.data, place * frame.nbytes):
                return number
        return self._new(frame)

    def _new(self, frame: np.ndarray) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number, self._top = self._top, self._top + 1
            if number == len(self._pixels):
                self._grow()
        if self.device.type == "cpu":
            self._pixels.numpy()[number] = frame
        else:
            self._pixels[number] = torch.from_numpy(frame)
        return number

    def _grow(self) -> None:
        pixels = self._room(2 * len(self._pixels))
        pixels[: len(self._pixels)] = self._pixels
        self._holders += [0] * len(self._pixels)
        self._pixels = pixels

    def _hold(self, frame_ids: list[int]) -> None:
        holders = self._holders
        for number in frame_ids:
            holders[number] += 1

    def drop(self, frame_ids: list[int]) -> None:
        """Let go of frames, named once for each row or episode that held one."""
        holders = self._holders
        for number in frame_ids:
            holders[number] -= 1
            if not holders[number]:
                self._free.append(number)

    def end(self, episode: int) -> None:
        """Let go of what a running episode holds."""
        self.drop(self._running.pop(episode, (-1, None, []))[2])

    def forget_before(self, write: int) -> None:
        """End the episodes of which no row is stored any more."""
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

        Where all moved on by one frame, the k + 1 frames of each step are read once, and both share their memory.
        """
        if not torch.equal(starts[:, 1:], ends[:, :-1]):
            return self.get(starts), self.get(ends)
        frames = self.get(torch.cat([starts, ends[:, -1:]], dim=1))
        return frames[:, :-1], frames[:, 1:]

    def state(self) -> dict[str, Any]:
        """Return everything kept; the frames share memory."""
        running = self._running.items()
        return {
            "stack": self.stack,
            "pixels": self._pixels[: self._top],
            "holders": np.array(self._holders[: self._top], np.int64),
            "episodes": np.array([episode for episode, _ in running], np.int64),
            "newest": np.array([newest for _, (newest, _, _) in running], np.int64),
            "counts": np.array([len(ids) for _, (_, _, ids) in running], np.int64),
            "known": np.array([number for _, (_, _, ids) in running for number in ids], np.int64),
        }

    @classmethod
    def of_state(cls, state: dict[str, Any], rows: int, device: torch.device, shared: bool = False) -> FramePool:
        """Return the frames of a state; `shared` keeps those of the state in place of a copy, for reading alone."""
        pixels = as_tensor(state["pixels"])
        made = cls(int(state["stack"]), tuple(pixels.shape[1:]), max(rows, len(pixels)), device)
        made._top = len(pixels)
        if shared:
            made._pixels = pixels.to(device)
        else:
            made._pixels[: made._top] = pixels.to(device)
        made._holders[: made._top] = np.asarray(state["holders"]).tolist()
        made._free = np.flatnonzero(np.asarray(state["holders"]) == 0).tolist()
        frame_ids = iter(np.asarray(state["known"]).tolist())
        columns = (np.asarray(state[name]).tolist() for name in ("episodes", "newest", "counts"))
        for episode, newest, count in zip(*columns, strict=True):
            made._running[episode] = newest, None, [next(frame_ids) for _ in range(count)]
        return made
