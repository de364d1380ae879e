"""RLlib names episodes by strings, the storage by integers."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.env.single_agent_episode import SingleAgentEpisode


class EpisodeIds(dict[str, int]):
    """The integer of each episode of which some row is stored.

    Attributes:
        written: Number of rows ever stored.
        ends: How many rows had been stored with each episode's newest one, in rising order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.ends: dict[str, int] = {}
        self._next = 0

    def write(self, chunks: Sequence[SingleAgentEpisode]) -> list[int]:
        """Note that the rows of `chunks` are stored in this order; returns the integer of each chunk."""
        for chunk in chunks:
            if chunk.id_ not in self:
                self[chunk.id_], self._next = self._next, self._next + 1
            self.written += len(chunk)
            self.ends.pop(chunk.id_, None)
            self.ends[chunk.id_] = self.written
        return [self[chunk.id_] for chunk in chunks]

    def forget(self, capacity: int) -> int:
        """Drop episodes that left the newest `capacity` rows; returns their number."""
        gone = []
        for name, end in self.ends.items():
            if end > self.written - capacity:
                break
            gone.append(name)
        for name in gone:
            del self.ends[name], self[name]
        return len(gone)
