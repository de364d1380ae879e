"""The rows of a ring, in which every observation is stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import (
    Columns,
    feature_columns,
    get_column_name,
    get_part_name,
    is_extra,
    observation_columns,
    select_stored,
)
from interreplay.storage.row_table import RowTable
from interreplay.transitions import (
    Observation,
    Transitions,
    as_tensor,
    join_parts,
    observation_parts,
    to_arrays,
    unchecked,
)


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
        """Add one row with its episode id, the bytes of obs and next_obs, and its write number.

        Returns:
            Its id, and the write number of the row that it continues, −1 for none.
        """
        number = episode
        if number is None:
            last = self.open.get(self.stream)
            if last is None or last[1] != start:
                self.broken += last is not None
                self.open.pop(self.stream, None)
                self.stream -= 1
            number = self.stream
        previous, reached = self.open.pop(number, (-1, b""))
        if not done:
            self.open[number] = (write, end)
        if reached != start:
            previous = -1
        return number, previous

    def forget_before(self, write: int) -> None:
        """Drop running episodes with an overwritten newest row."""
        while self.open:
            episode = next(iter(self.open))
            if self.open[episode][0] >= write:
                return
            del self.open[episode]

    def state(self) -> dict[str, Any]:
        writes = []
        ends = []
        for write, end in self.open.values():
            writes.append(write)
            ends.append(end)
        joined = np.frombuffer(b"".join(ends), np.uint8)
        return {
            "episodes": np.array(list(self.open), dtype=np.int64),
            "writes": np.array(writes, dtype=np.int64),
            "next_obs": joined.reshape(len(ends), len(joined) // max(len(ends), 1)),
            "stream": self.stream,
            "broken": self.broken,
        }

    def load(self, state: dict[str, Any]) -> None:
        episodes = np.asarray(state["episodes"]).tolist()
        writes = np.asarray(state["writes"]).tolist()
        ends = [np.asarray(row).tobytes() for row in state["next_obs"]]
        self.open = dict(zip(episodes, zip(writes, ends, strict=True), strict=True))
        self.stream = int(state["stream"])
        self.broken = int(state.get("broken", 0))


class FinalObservations:
    """A growing table of the observations that no stored row begins with.

    These are the final observations of episodes, and the next observations of rows that nothing continues yet.
    """

    def __init__(self, columns: Columns):
        self.records = RowTable(16, columns)
        self.used = 0
        self.free: list[int] = []

    def put(self, parts: dict[str, Tensor]) -> np.ndarray:
        """Store n observations; return their indices ``(n,)`` int64."""
        index = np.array([self._new_index() for _ in range(len(next(iter(parts.values()))))], dtype=np.int64)
        self.records.write(index, parts)
        return index

    def put_row(self, parts: dict[str, np.ndarray]) -> int:
        """Store one observation, with parts of length 1; return its index."""
        index = self._new_index()
        self.records.set_row(index, parts)
        return index

    def _new_index(self) -> int:
        if self.free:
            return self.free.pop()
        self.used += 1
        if self.used > len(self.records):
            self.records.grow(2 * len(self.records))
        return self.used - 1

    def state(self) -> dict[str, Any]:
        return {"rows": self.records.rows[: self.used], "free": list(self.free), "used": self.used}

    def load(self, state: dict[str, Any]) -> None:
        self.used = int(state["used"])
        self.free = list(map(int, state["free"]))
        if self.used > len(self.records):
            self.records.grow(self.used)
        self.records.rows[: self.used] = as_tensor(state["rows"])


class LinkedRows:
    """Rows with links to the rows that continue them.

    A link of 0 or more is the slot of the row with an obs that is this row's next_obs. With a link of −1 − i, next_obs
    is final observation i.
    """

    def __init__(self, capacity: int, columns: Columns):
        self.capacity = capacity
        self.columns = columns
        self.observed = list(observation_columns(columns))
        self.sorted = sorted(self.observed)
        self.features = feature_columns(columns)
        self._parts = {get_part_name(name): name for name in self.observed}
        self._extras = {get_part_name(name): name for name in filter(is_extra, columns)}
        self.records = RowTable(capacity, columns)
        self.tails = FinalObservations(observation_columns(columns))
        self.episodes = EpisodeLinks()
        self._discounts: dict[tuple[torch.dtype, float], tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self.tails.records.nbytes

    @property
    def links(self) -> np.ndarray:
        """Column "link" ``(capacity,)``."""
        return self.records.array("link")

    # -- Reading -----------------------------------------------------------------------------------

    def next_column(self, slots: Tensor, name: str) -> Tensor:
        """Return column `name` of the observations that follow the rows in `slots` ``(n,)``."""
        return torch.from_numpy(self._read_following(self.links[slots.numpy()], [name])[name])

    def read(self, slots: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return the records in `slots` ``(n,)``, and records with the observations that follow them."""
        rows = self.records.copy(slots.numpy())
        return rows, self._read_following(rows["link"], self.observed)

    def transitions(self, rows: np.ndarray, following: np.ndarray, gamma: float) -> Transitions:
        """Return single-step transitions of records ``(...)`` and the records that follow them."""
        columns = self.records.columns(rows, self.columns)
        terminated = columns["terminated"]
        key = columns["rewards"].dtype, gamma
        discounts = self._discounts.get(key)
        if discounts is None:  # made once: one operation per read instead of three
            discounts = torch.tensor(0.0, dtype=key[0]), torch.tensor(gamma, dtype=key[0])
            self._discounts = {key: discounts}
        return unchecked(
            obs=self._join(columns),
            actions=columns["actions"],
            rewards=columns["rewards"],
            next_obs=self._join(self.records.columns(following, self.observed)),
            terminated=terminated,
            truncated=columns["truncated"],
            episode=columns["episode"],
            discounts=torch.where(terminated, *discounts),
            extras={extra: columns[name] for extra, name in self._extras.items()},
        )

    def _join(self, columns: dict[str, Tensor]) -> Observation:
        """Return the observation in columns."""
        return join_parts({part: columns[name] for part, name in self._parts.items()})

    def _read_following(self, links: np.ndarray, names: list[str]) -> np.ndarray:
        """Return records with columns `names` of the observations that `links` ``(n,)`` point to."""
        rows = self.records.copy(np.maximum(links, 0))
        final = np.flatnonzero(links < 0)
        if len(final):
            ends = self.tails.records.copy(-1 - links[final])
            for name in names:
                rows[name][final] = ends[name]
        return rows

    def vectors(self, slots: np.ndarray) -> np.ndarray:
        """Return [s; a; r; s'] of the rows in `slots` ``(n,)``, flattened: ``(n, D)`` in the widest of their dtypes."""
        observed = tuple(self.observed)
        own = self.records.flat(slots, (*observed, "actions", "rewards"))
        link = self.links[slots]
        if len(slots) == 1:  # takes two thirds of the time
            if link[0] >= 0:
                return np.concatenate([own, self.records.flat(link, observed)], axis=1)
            return np.concatenate([own, self.tails.records.flat(-1 - link, observed)], axis=1)
        final = link < 0
        following = self.records.flat(np.maximum(link, 0), observed)
        following[final] = self.tails.records.flat(-1 - link[final], observed)
        return np.concatenate([own, following], axis=1)

    # -- Writing -----------------------------------------------------------------------------------

    def append(self, transitions: Transitions, written: int) -> None:
        """Write n rows in the stored dtypes into the next slots, which do not extend beyond the end of the ring."""
        n = len(transitions)
        start = written % self.capacity
        if n == 1:
            row = to_arrays(transitions.columns())
            return self.append_row(row, written)
        episode, previous = self._connect(transitions, written)
        replaced = self.links[start : min(start + n, written)]
        self._drop_final(replaced[replaced < 0])
        after = np.flatnonzero(previous >= 0)
        before = previous[after] - written  # index among the added rows
        inside = before >= 0
        link = np.full(n, -1, dtype=np.int64)
        link[before[inside]] = start + after[inside]
        ends = np.flatnonzero(link < 0)
        parts = {}
        for name, part in observation_parts(transitions.next_obs).items():
            parts[get_column_name(name)] = part[torch.from_numpy(ends)]
        link[ends] = -1 - self.tails.put(parts)
        derived = {"link": torch.from_numpy(link), "episode": torch.from_numpy(episode)}
        self.records.write(slice(start, start + n), select_stored(transitions.columns()) | derived)
        if not inside.all():
            outside = previous[after[~inside]] % self.capacity
            self._drop_final(self.links[outside])
            self.links[outside] = start + after[~inside]
        self.episodes.forget_before(written + n - self.capacity)

    def append_row(self, row: dict[str, np.ndarray], written: int) -> None:
        """Write one row, given by columns of length 1 in the stored dtypes, in a third of the time of `append`."""
        slot = written % self.capacity
        start = b""
        end = b""
        for name in self.sorted:
            start += row[name].tobytes()
            end += row[f"next_{name}"].tobytes()
        done = bool(row["terminated"][0] or row["truncated"][0])
        number = None
        if "episode" in row:
            number = int(row["episode"][0])
        episode, previous = self.episodes.connect(number, start, end, done, written)
        links = self.links
        if written >= self.capacity and links[slot] < 0:
            self.tails.free.append(-1 - int(links[slot]))
        tail = self.tails.put_row({name: row[f"next_{name}"] for name in self.observed})
        self.records.set_row(slot, select_stored(row))
        links[slot] = -1 - tail
        self.records.array("episode")[slot] = episode
        if previous >= max(0, written + 1 - self.capacity):
            before = previous % self.capacity
            self.tails.free.append(-1 - int(links[before]))
            links[before] = slot
        self.episodes.forget_before(written + 1 - self.capacity)

    def _connect(self, transitions: Transitions, written: int) -> tuple[np.ndarray, np.ndarray]:
        """Return episode ids, and the write numbers of the rows that are continued; −1 if not stored afterwards."""
        starts = observation_bytes(transitions.obs)
        ends = observation_bytes(transitions.next_obs)
        done = (transitions.terminated | transitions.truncated).tolist()
        n = len(starts)
        ids = [None] * n
        if transitions.episode is not None:
            ids = transitions.episode.tolist()
        episode = np.empty(n, np.int64)
        previous = np.empty(n, np.int64)
        for i, row in enumerate(zip(ids, starts, ends, done, strict=True)):
            episode[i], previous[i] = self.episodes.connect(*row, written + i)
        previous[previous < written + n - self.capacity] = -1
        return episode, previous

    def _drop_final(self, links: np.ndarray) -> None:
        """Drop the final observations that `links` point to."""
        self.tails.free.extend((-1 - links).tolist())

    def truncate(self, episode: int) -> None:
        """Truncate the newest row of a running episode; nothing will continue it."""
        write, _ = self.episodes.open.pop(episode, (-1, b""))
        if write >= 0:
            self.records.column("truncated")[write % self.capacity] = True

    # -- State -------------------------------------------------------------------------------------

    def state(self, size: int) -> dict[str, Any]:
        """Return the state of the first `size` slots; arrays share memory."""
        columns = {}
        for name, (shape, dtype) in self.columns.items():
            columns[name] = [list(shape), str(dtype)[6:]]
        rows = self.records.rows[:size]
        return {"columns": columns, "rows": rows, "tails": self.tails.state(), "links": self.episodes.state()}

    def load(self, state: dict[str, Any]) -> None:
        rows = as_tensor(state["rows"])
        self.records.rows[: len(rows)] = rows
        self.tails.load(state["tails"])
        self.episodes.load(state["links"])


def observation_bytes(obs: Observation) -> list[bytes]:
    """Return observations ``(n, ...)`` as n byte strings, for bitwise comparison."""
    flat = []
    for _, part in sorted(observation_parts(obs).items()):
        array = np.ascontiguousarray(part.numpy(force=True))
        flat.append(array.reshape(len(array), -1).view(np.uint8))
    if len(flat) > 1:
        flat = [np.concatenate(flat, axis=1)]
    return list(map(np.ndarray.tobytes, flat[0]))
