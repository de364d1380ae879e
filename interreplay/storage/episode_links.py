"""Links between rows: which added row continues which. Episodes arrive in order, but may interleave."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.transitions import Observation, observation_parts


def observation_bytes(obs: Observation) -> list[bytes]:
    """Return observations ``(n, ...)`` as n byte strings, for bitwise comparison."""
    parts = [part.numpy(force=True) for _, part in sorted(observation_parts(obs).items())]
    if len(parts) > 1:
        flat = [np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8) for part in parts]
        parts = [np.concatenate(flat, axis=1)]
    everything = parts[0].tobytes()
    n = len(parts[0])
    width = len(everything) // n
    return [everything[row * width : (row + 1) * width] for row in range(n)]


class EpisodeLinks:
    """Finds the predecessor of every added row.

    A row continues another if both have the same episode id, the earlier one is the newest of its episode and did not
    end it, and its next_obs equals the later one's obs bit by bit. Rows without an id form one stream, in which a new
    episode starts when a row does not continue the previous one; these episodes get the ids −2, −3, and so on.

    Attributes:
        open: For each running episode, the write number of its newest row and the bytes of its next_obs, in the order
            of these rows.
        stream: Id of the newest episode of rows without an id.
        broken: Number of rows without an id that did not continue the previous row although that row had not ended its
            episode.
    """

    def __init__(self) -> None:
        self.open: dict[int, tuple[int, bytes]] = {}
        self.stream = -1
        self.broken = 0

    def connect(self, episode: int | None, start: bytes, end: bytes, done: bool, write: int) -> tuple[int, int]:
        """Add one row.

        Args:
            episode: Its id, or None.
            start: Bytes of obs.
            end: Bytes of next_obs.
            done: Whether it terminated or was truncated.
            write: Its write number.

        Returns:
            Its id, and the write number of the row that it continues, −1 for none.
        """
        number = self._stream_id(start) if episode is None else episode
        previous, reached = self.open.pop(number, (-1, b""))
        if not done:
            self.open[number] = (write, end)
        return number, previous if reached == start else -1

    def _stream_id(self, start: bytes) -> int:
        """Return the id of a row that has none and begins with `start`."""
        last = self.open.get(self.stream)
        if last is None or last[1] != start:
            self.broken += last is not None
            self.open.pop(self.stream, None)
            self.stream -= 1
        return self.stream

    def forget_before(self, write: int) -> None:
        """Drop running episodes with an overwritten newest row."""
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
        episodes = np.asarray(state["episodes"]).tolist()
        writes = np.asarray(state["writes"]).tolist()
        ends = [np.asarray(row).tobytes() for row in state["next_obs"]]
        self.open = dict(zip(episodes, zip(writes, ends, strict=True), strict=True))
        self.stream = int(state["stream"])
