"""The rows of a ring, in which every observation is stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import (
    Columns,
    column_of,
    feature_columns,
    is_extra,
    observation_columns,
    part_of,
    stored_columns,
)
from interreplay.storage.episode_links import EpisodeLinks, observation_bytes
from interreplay.storage.row_table import RowTable
from interreplay.transitions import Observation, Transitions, as_tensor, join_parts, observation_parts, unchecked


class FinalObservations:
    """A growing table of the observations that no stored row begins with.

    These are the final observations of episodes, and the next observations of rows that nothing continues yet.

    Args:
        columns: Columns of one observation.
        device: Torch device.
    """

    def __init__(self, columns: Columns, device: torch.device):
        self.records = RowTable(16, columns, device)
        self.used = 0
        self.free: list[int] = []

    def put(self, parts: dict[str, Tensor]) -> np.ndarray:
        """Store n observations; return their indices ``(n,)`` int64."""
        n = len(next(iter(parts.values())))
        reused = [self.free.pop() for _ in range(min(n, len(self.free)))]
        fresh = range(self.used, self.used + n - len(reused))
        self.used = fresh.stop
        if self.used > len(self.records):
            self.records.grow(max(self.used, 2 * len(self.records)))
        index = np.array([*reused, *fresh], dtype=np.int64)
        self.records.scatter(torch.from_numpy(index).to(self.records.device), parts)
        return index

    def put_row(self, parts: dict[str, np.ndarray]) -> int:
        """Store one observation, with parts of length 1, on the CPU; return its index."""
        if self.free:
            index = self.free.pop()
        else:
            index = self.used
            self.used += 1
            if self.used > len(self.records):
                self.records.grow(2 * len(self.records))
        self.records.set_row(index, parts)
        return index

    def state(self) -> dict[str, Any]:
        return {"rows": self.records.rows[: self.used], "free": list(self.free), "used": self.used}

    def load(self, state: dict[str, Any]) -> None:
        self.used = int(state["used"])
        self.free = [int(i) for i in state["free"]]
        if self.used > len(self.records):
            self.records.grow(self.used)
        self.records.rows[: self.used] = as_tensor(state["rows"])


class LinkedRows:
    """Rows with links to the rows that continue them.

    A link of 0 or more is the slot of the row whose obs is this row's next_obs. With a link of −1 − i, next_obs is
    final observation i.

    Args:
        capacity: Number of slots.
        columns: Columns of a row, from `columns.columns_of`.
        device: Torch device.
    """

    def __init__(self, capacity: int, columns: Columns, device: torch.device):
        self.capacity = capacity
        self.device = device
        self.columns = columns
        self.observed = list(observation_columns(columns))
        self.sorted = sorted(self.observed)
        self.features = feature_columns(columns)
        self._parts = {part_of(name): name for name in self.observed}
        self._extras = {part_of(name): name for name in columns if is_extra(name)}
        self.records = RowTable(capacity, columns, device)
        self.tails = FinalObservations(observation_columns(columns), device)
        self.episodes = EpisodeLinks()
        self._cpu_links = None if self.records.in_numpy else np.zeros(capacity, np.int32)
        self._discounts: dict[tuple[torch.dtype, float], tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self.tails.records.nbytes

    @property
    def links(self) -> np.ndarray:
        """Column "link" ``(capacity,)`` on the CPU, without waiting for another device."""
        return self.records.array("link") if self._cpu_links is None else self._cpu_links

    # -- Reading -----------------------------------------------------------------------------------

    def observations(self, links: Tensor, names: list[str]) -> dict[str, Tensor]:
        """Return columns `names` of the observations that `links` ``(n,)`` point to."""
        return self.records.columns(self._following(links, names), names)

    def numbers_of(self, slots: range, name: str) -> list[int]:
        """Return the integers in column `name` of obs and next_obs of the rows in `slots`."""
        if not self.records.in_numpy:
            index = torch.arange(slots.start, slots.stop, device=self.device)
            rows = self.records.take(index, [name, "link"])
            return torch.cat([rows[name], self.observations(rows["link"], [name])[name]]).reshape(-1).tolist()
        found: list[int] = []
        own = self.records.array(name)
        ends = self.tails.records.array(name)
        for slot, link in zip(slots, self.links[slots.start : slots.stop].tolist(), strict=True):
            following = own[link] if link >= 0 else ends[-1 - link]
            found += own[slot].tolist() + following.tolist()
        return found

    def read(self, slots: Tensor) -> tuple[Any, Any]:
        """Return the records in `slots` ``(n,)``, and records with the observations that follow them."""
        rows = self.records.copy(slots)
        links = self.records.columns(rows, ["link"])["link"]
        return rows, self._following(links, self.observed)

    def transitions(self, rows: Any, following: Any, gamma: float) -> Transitions:
        """Return single-step transitions of records ``(...)`` and the records that follow them."""
        columns = self.records.columns(rows, self.columns)
        terminated = columns["terminated"]
        key = columns["rewards"].dtype, gamma
        discounts = self._discounts.get(key)
        if discounts is None:  # made once: one operation per read instead of three
            zero, other = torch.tensor([0.0, gamma], dtype=key[0], device=self.device)
            discounts = (zero, other)
            self._discounts = {key: discounts}
        return unchecked(
            obs=join_parts({part: columns[name] for part, name in self._parts.items()}),
            actions=columns["actions"],
            rewards=columns["rewards"],
            next_obs=self.observation(following),
            terminated=terminated,
            truncated=columns["truncated"],
            episode=columns["episode"],
            discounts=torch.where(terminated, *discounts),
            extras={extra: columns[name] for extra, name in self._extras.items()},
        )

    def observation(self, rows: Any) -> Observation:
        """Return the observation in copied records ``(...)``."""
        columns = self.records.columns(rows, self.observed)
        return join_parts({part: columns[name] for part, name in self._parts.items()})

    def _following(self, links: Tensor, names: list[str]) -> Any:
        """Return records whose columns `names` are those of the observations that `links` ``(n,)`` point to."""
        if not self.records.in_numpy:
            return self._following_on_device(links, names)
        link = links.numpy()
        rows = self.records.copy(self._index(np.maximum(link, 0)))
        final = np.flatnonzero(link < 0)
        if len(final):
            ends = self.tails.records.take(self._index(-1 - link[final]), names)
            index = self._index(final)
            for name, column in self.records.columns(rows, names).items():
                column[index] = ends[name]
        return rows

    def _following_on_device(self, links: Tensor, names: list[str]) -> Any:
        """Return the result of `_following` without synchronizing with another device."""
        rows = self.records.copy(links.clamp(min=0))
        final = links < 0
        ends = self.tails.records.take((-1 - links).clamp(min=0), names)
        for name, column in self.records.columns(rows, names).items():
            column.copy_(torch.where(final.view(-1, *[1] * (column.ndim - 1)), ends[name], column))
        return rows

    def vectors(self, slots: np.ndarray) -> np.ndarray:
        """Return [s; a; r; s'] of the rows in `slots` ``(n,)``, flattened: ``(n, D)`` in the widest of their dtypes."""
        observed = tuple(self.observed)
        own = self.records.flat(slots, (*observed, "actions", "rewards"))
        link = self.records.flat(slots, ("link",))[:, 0]
        if len(slots) == 1:  # in two thirds of the time
            table = self.records if link[0] >= 0 else self.tails.records
            place = link if link[0] >= 0 else -1 - link
            return np.concatenate([own, table.flat(place, observed)], axis=1)
        final = link < 0
        following = self.records.flat(np.maximum(link, 0), observed)
        following[final] = self.tails.records.flat(-1 - link[final], observed)
        return np.concatenate([own, following], axis=1)

    def _index(self, index: np.ndarray) -> Tensor:
        return torch.from_numpy(index.astype(np.int64, copy=False)).to(self.device)

    # -- Writing -----------------------------------------------------------------------------------

    def append(self, transitions: Transitions, written: int) -> None:
        """Write rows into the next slots, which do not extend beyond the end of the ring.

        Args:
            transitions: n rows in the stored dtypes.
            written: Number of rows written before.
        """
        n = len(transitions)
        start = written % self.capacity
        if n == 1 and self.records.in_numpy:
            row = {name: column.numpy(force=True) for name, column in transitions.columns().items()}
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
        index = torch.from_numpy(ends)
        parts = observation_parts(transitions.next_obs).items()
        link[ends] = -1 - self.tails.put({column_of(name): part[index] for name, part in parts})
        derived = {"link": torch.from_numpy(link), "episode": torch.from_numpy(episode)}
        self.records.write(start, stored_columns(transitions.columns()) | derived)
        if self._cpu_links is not None:
            self._cpu_links[start : start + n] = link
        if not inside.all():
            self._relink(previous[after[~inside]] % self.capacity, start + after[~inside])
        self.episodes.forget_before(written + n - self.capacity)

    def append_row(self, row: dict[str, np.ndarray], written: int) -> None:
        """Write one row on the CPU, in a third of the time of `append`.

        Args:
            row: Its columns, each of length 1, in the stored dtypes.
            written: Number of rows written before.
        """
        slot = written % self.capacity
        start = b"".join(row[name].tobytes() for name in self.sorted)
        end = b"".join(row[f"next_{name}"].tobytes() for name in self.sorted)
        done = bool(row["terminated"][0] or row["truncated"][0])
        number = int(row["episode"][0]) if "episode" in row else None
        episode, previous = self.episodes.connect(number, start, end, done, written)
        links = self.links
        if written >= self.capacity and links[slot] < 0:
            self.tails.free.append(-1 - int(links[slot]))
        tail = self.tails.put_row({name: row[f"next_{name}"] for name in self.observed})
        self.records.set_row(slot, {name: row[name] for name in stored_columns(row)})
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
        ids = [None] * n if transitions.episode is None else transitions.episode.tolist()
        episode = np.empty(n, np.int64)
        previous = np.empty(n, np.int64)
        for i, row in enumerate(zip(ids, starts, ends, done, strict=True)):
            episode[i], previous[i] = self.episodes.connect(*row, written + i)
        previous[previous < written + n - self.capacity] = -1
        return episode, previous

    def _drop_final(self, links: np.ndarray) -> None:
        """Drop the final observations that `links` point to."""
        self.tails.free.extend((-1 - links).tolist())

    def _relink(self, before: np.ndarray, after: np.ndarray) -> None:
        """Link rows in slots `before` to the rows in slots `after`, which continue them."""
        self._drop_final(self.links[before])
        self.links[before] = after
        if self._cpu_links is not None:
            links = self.records.column("link")
            links.index_copy_(0, self._index(before), torch.from_numpy(after).to(links))

    def truncate(self, episode: int) -> None:
        """Truncate the newest row of a running episode; nothing will continue it."""
        write, _ = self.episodes.open.pop(episode, (-1, b""))
        if write >= 0:
            self.records.column("truncated")[write % self.capacity] = True

    # -- State -------------------------------------------------------------------------------------

    def state(self, size: int) -> dict[str, Any]:
        """Return the state of the first `size` slots; arrays share memory."""
        columns = {name: [list(shape), str(dtype)[6:]] for name, (shape, dtype) in self.columns.items()}
        rows = self.records.rows[:size]
        return {"columns": columns, "rows": rows, "tails": self.tails.state(), "links": self.episodes.state()}

    def load(self, state: dict[str, Any]) -> None:
        rows = as_tensor(state["rows"])
        self.records.rows[: len(rows)] = rows
        if self._cpu_links is not None:
            self._cpu_links[: len(rows)] = self.records.column("link")[: len(rows)].numpy(force=True)
        self.tails.load(state["tails"])
        self.episodes.load(state["links"])
