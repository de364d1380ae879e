"""Which added row continues which: episodes arrive in order, but several may interleave."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.transitions import Observation, observation_parts


def observation_bytes(obs: Observation) -> list[bytes]:
    """Return observations ``(n, ...)`` as n strings of bytes, for comparison bit by bit."""
    parts = [part.numpy(force=True) for _, part in sorted(observation_parts(obs).items())]
    if len(parts) > 1:
        flat = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts]
        parts = [np.concatenate(flat, axis=1)]
    everything = parts[0].tobytes()
    n, width = len(parts[0]), len(everything) // len(parts[0])
    return [everything[row * width : (row + 1) * width] for row in range(n)]


class EpisodeLinks:
    """Finds the predecessor of every added row.

    A row continues another when both carry the same episode id, the earlier one is the newest of its episode
    and did not end it, and its next_obs equals the later one's obs bit by bit. Rows without an id form one
    stream, in which a new episode starts wherever a row does not continue the one before it; these get ids −2, −3, …

    Attributes:
        open: Of each episode that may go on the newest row: its write number and the bytes of its next_obs.
            Oldest rows first.
        stream: Id of the newest episode of rows without an id.
        broken: Rows without an id, since this object was made, that did not continue the row before although that one
            had not ended its episode.
    """

    def __init__(self) -> None:
        self.open: dict[int, tuple[int, bytes]] = {}
        self.stream = -1
        self.broken = 0

    def connect(
        self, episode: list[int] | None, starts: list[bytes], ends: list[bytes], done: list[bool], first_write: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take in n rows.

        Args:
            episode: Their ids, or None.
            starts: Bytes of obs.
            ends: Bytes of next_obs.
            done: Terminated or truncated.
            first_write: Write number of the first row.

        Returns:
            Ids ``(n,)`` int64, and write numbers ``(n,)`` int64 of the rows that these continue, −1 where none.
        """
        ids = [None] * len(starts) if episode is None else episode
        rows = zip(ids, starts, ends, done, strict=True)
        found = [self.connect_row(*row, first_write + i) for i, row in enumerate(rows)]
        numbers, previous = zip(*found, strict=True)
        return np.array(numbers, np.int64), np.array(previous, np.int64)

    def connect_row(self, episode: int | None, start: bytes, end: bytes, done: bool, write: int) -> tuple[int, int]:
        """Return `connect` of one row: its id, and the write number of the row that it continues, −1 for none."""
        number = self._streamed(start) if episode is None else episode
        previous, reached = self.open.pop(number, (-1, b""))
        if not done:
            self.open[number] = (write, end)
        return number, previous if reached == start else -1

    def _streamed(self, start: bytes) -> int:
        """Return the id of a row that came without one and begins with `start`."""
        last = self.open.get(self.stream)
        if last is None or last[1] != start:
            self.broken += last is not None
            self.open.pop(self.stream, None)
            self.stream -= 1
        return self.stream

    def forget_before(self, write: int) -> None:
        """Drop open rows that were overwritten."""
        while self.open:
            episode = next(iter(self.open))
            if self.open[episode][0] >= write:
                return
            del self.open[episode]

    def state(self) -> dict[str, Any]:
        rows = list(self.open.values())
        ends = np.frombuffer(b"".join(end for _, end in rows), np.uint8)
        return {
            "episodes": np.array(list(self.open), dtype=np.int64),
            "writes": np.array([write for write, _ in rows], dtype=np.int64),
            "next_obs": ends.reshape(len(rows), -1) if rows else ends.reshape(0, 0),
            "stream": self.stream,
        }

    def load(self, state: dict[str, Any]) -> None:
        episodes, writes = np.asarray(state["episodes"]).tolist(), np.asarray(state["writes"]).tolist()
        ends = [np.asarray(row).tobytes() for row in state["next_obs"]]
        self.open = dict(zip(episodes, zip(writes, ends, strict=True), strict=True))
        self.stream = int(state["stream"])
