"""Which added row continues which: episodes arrive in order, but several may interleave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from interreplay.transitions import Observation, observation_parts

Bytes = np.ndarray


def observation_bytes(obs: Observation) -> Bytes:
    """Observations ``(n, ...)`` as bytes ``(n, width)`` on the host, for comparison bit by bit."""
    flat = [p.detach().cpu().reshape(p.shape[0], -1).contiguous().view(torch.uint8) for p in observation_parts(obs).values()]
    return (flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)).numpy()


@dataclass
class OpenRow:
    """The newest row of an episode that may go on: its write number and the bytes of its next_obs."""

    write: int
    next_obs: Bytes


class EpisodeLinks:
    """Finds the predecessor of every added row.

    A row continues another when both carry the same episode id, the earlier one did not end its episode,
    and its next_obs equals the later one's obs bit by bit. Rows without an id form one stream, in which a
    new episode starts wherever a row does not continue the one before it; these get ids −1, −2, …
    """

    def __init__(self) -> None:
        self.open: dict[int, OpenRow] = {}
        self.stream = -1

    def episodes(self, starts: Bytes, ends: Bytes, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For rows that came without ids: ids ``(n,)`` int64, see the class, and which rows none of the n continues."""
        breaks = np.ones(len(done), dtype=bool)
        breaks[1:] = done[:-1] | (starts[1:] != ends[:-1]).any(axis=1)
        last = self.open.get(self.stream)
        breaks[0] = last is None or bool((starts[0] != last.next_obs).any())
        ids = self.stream - np.cumsum(breaks)
        if breaks[0]:
            self.open.pop(self.stream, None)
        self.stream = int(ids[-1])
        return ids, done | np.append(breaks[1:], False)

    def connect(self, episode: np.ndarray, starts: Bytes, ends: Bytes, done: np.ndarray, first_write: int) -> np.ndarray:
        """Write numbers ``(n,)`` of the rows that the n added ones continue, −1 where none.

        Args:
            episode: Ids ``(n,)``.
            starts: Bytes of obs ``(n, width)``.
            ends: Bytes of next_obs ``(n, width)``.
            done: ``(n,)`` bool, terminated or truncated.
            first_write: Write number of the first added row.
        """
        order = np.argsort(episode, kind="stable")
        ids = episode[order]
        head = np.ones(len(ids), dtype=bool)
        head[1:] = ids[1:] != ids[:-1]
        previous = np.full(len(ids), -1, dtype=np.int64)
        inner = np.flatnonzero(~head)
        before, after = order[inner - 1], order[inner]
        joined = ~done[before] & (ends[before] == starts[after]).all(axis=1)
        previous[after[joined]] = before[joined] + first_write
        for row in order[head].tolist():
            last = self.open.get(int(episode[row]))
            if last is not None and (last.next_obs == starts[row]).all():
                previous[row] = last.write
        tail = np.append(head[1:], True)
        for row in np.sort(order[tail]).tolist():
            self._close_or_open(int(episode[row]), row, ends, done, first_write)
        return previous

    def _close_or_open(self, episode: int, row: int, ends: Bytes, done: np.ndarray, first_write: int) -> None:
        self.open.pop(episode, None)
        if not done[row]:
            self.open[episode] = OpenRow(first_write + row, ends[row].copy())

    def forget_before(self, write: int) -> None:
        """Drop open rows that were overwritten; the oldest come first, for each update moves a row to the end."""
        while self.open:
            episode = next(iter(self.open))
            if self.open[episode].write >= write:
                return
            del self.open[episode]

    def state(self) -> dict[str, Any]:
        width = max((len(row.next_obs) for row in self.open.values()), default=0)
        ends = np.array([row.next_obs for row in self.open.values()], dtype=np.uint8).reshape(len(self.open), width)
        return {
            "episodes": np.array(list(self.open), dtype=np.int64),
            "writes": np.array([row.write for row in self.open.values()], dtype=np.int64),
            "next_obs": ends,
            "stream": self.stream,
        }

    def load(self, state: dict[str, Any]) -> None:
        rows = zip(np.asarray(state["episodes"]).tolist(), np.asarray(state["writes"]).tolist(), np.asarray(state["next_obs"]))
        self.open = {episode: OpenRow(write, ends.copy()) for episode, write, ends in rows}
        self.stream = int(state["stream"])
