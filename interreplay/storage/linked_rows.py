"""The rows of a ring, in which every observation is kept once."""

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
from interreplay.storage.final_observations import FinalObservations
from interreplay.storage.row_table import RowTable
from interreplay.transitions import Observation, Transitions, as_tensor, join_parts, observation_parts, unchecked


class LinkedRows:
    """Rows, each with a link: to the slot of the row that continues it, or to a tail.

    A link of 0 or more is the slot whose obs is this row's next_obs; a link of −1 − i says that next_obs is
    tail number i.

    Args:
        capacity: Number of slots.
        columns: What a row is made of, as `columns.columns_of` gives it.
        device: Torch device.
    """

    def __init__(self, capacity: int, columns: Columns, device: torch.device):
        self.capacity, self.device, self.columns = capacity, device, columns
        self.observed, self.features = list(observation_columns(columns)), feature_columns(columns)
        self.sorted = sorted(self.observed)
        self._parts = {part_of(name): name for name in self.observed}
        self._extras = {part_of(name): name for name in columns if is_extra(name)}
        self.records = RowTable(capacity, columns, device)
        self.tails = FinalObservations(observation_columns(columns), device)
        self.episodes = EpisodeLinks()
        self._kept_links = None if self.records.in_numpy else np.zeros(capacity, np.int32)
        self._factors: dict[tuple[torch.dtype, float], tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self.tails.nbytes

    @property
    def links(self) -> np.ndarray:
        """What column "link" holds ``(capacity,)``, on the processor, which would wait for it otherwise."""
        return self.records.array("link") if self._kept_links is None else self._kept_links

    # -- reading ----------------------------------------------------------------------------------

    def observations(self, links: Tensor, names: list[str]) -> dict[str, Tensor]:
        """Return columns `names` of the observations that `links` ``(n,)`` point to."""
        return self.records.columns(self._following(links, names), names)

    def numbers_of(self, slots: range, name: str) -> list[int]:
        """Return what column `name`, of whole numbers, holds of obs and next_obs of the rows in `slots`."""
        if not self.records.in_numpy:
            index = torch.arange(slots.start, slots.stop, device=self.device)
            rows = self.records.take(index, [name, "link"])
            return torch.cat([rows[name], self.observations(rows["link"], [name])[name]]).reshape(-1).tolist()
        found: list[int] = []
        own, ends, links = self.records.array(name), self.tails.records.array(name), self.links
        for slot, link in zip(slots, links[slots.start : slots.stop].tolist(), strict=True):
            found += own[slot].tolist() + (own[link] if link >= 0 else ends[-1 - link]).tolist()
        return found

    def read(self, slots: Tensor) -> tuple[Any, Any]:
        """Return records in `slots` ``(n,)``, and records of which the observations are those that follow."""
        rows = self.records.copy(slots)
        links = self.records.columns(rows, ["link"])["link"]
        return rows, self._following(links, self.observed)

    def transitions(self, rows: Any, following: Any, gamma: float) -> Transitions:
        """Return single-step transitions of records ``(...)`` and those that follow them."""
        columns = self.records.columns(rows, self.columns)
        terminated, rewards = columns["terminated"], columns["rewards"]
        return unchecked(
            obs=join_parts({part: columns[name] for part, name in self._parts.items()}),
            actions=columns["actions"],
            rewards=rewards,
            next_obs=self.observation(following),
            terminated=terminated,
            truncated=columns["truncated"],
            episode=columns["episode"],
            discounts=torch.where(terminated, *self._discounts(rewards.dtype, gamma)),
            extras={extra: columns[name] for extra, name in self._extras.items()},
        )

    def _discounts(self, dtype: torch.dtype, gamma: float) -> tuple[Tensor, Tensor]:
        """Return the discounts of a terminated row and of any other, made once: one operation per read, not three."""
        found = self._factors.get((dtype, gamma))
        if found is None:
            zero, other = torch.tensor([0.0, gamma], dtype=dtype, device=self.device)
            self._factors = {(dtype, gamma): (zero, other)}
            return zero, other
        return found

    def observation(self, rows: Any) -> Observation:
        """Return the observation in copied records ``(...)``."""
        columns = self.records.columns(rows, self.observed)
        return join_parts({part: columns[name] for part, name in self._parts.items()})

    def _following(self, links: Tensor, names: list[str]) -> Any:
        """Return records of which the columns `names` are those of the observations that `links` ``(n,)`` point to."""
        if not self.records.in_numpy:
            return self._following_elsewhere(links, names)
        link = links.numpy()
        rows = self.records.copy(self._index(np.maximum(link, 0)))
        apart = np.flatnonzero(link < 0)
        if len(apart):
            ends = self.tails.records.take(self._index(-1 - link[apart]), names)
            index = self._index(apart)
            for name, column in self.records.columns(rows, names).items():
                column[index] = ends[name]
        return rows

    def _following_elsewhere(self, links: Tensor, names: list[str]) -> Any:
        """Do what `_following` does without asking another device which rows are kept apart."""
        rows, apart = self.records.copy(links.clamp(min=0)), links < 0
        ends = self.tails.records.take((-1 - links).clamp(min=0), names)
        for name, column in self.records.columns(rows, names).items():
            lone = apart.view(-1, *[1] * (column.ndim - 1))
            column.copy_(torch.where(lone, ends[name], column))
        return rows

    def vectors(self, slots: np.ndarray) -> np.ndarray:
        """Return [s; a; r; s'] of the rows in `slots` ``(n,)``, flattened: ``(n, D)`` in the widest of their dtypes."""
        observed = tuple(self.observed)
        own = self.records.flat(slots, (*observed, "actions", "rewards"))
        link = self.records.flat(slots, ("link",))[:, 0]
        if len(slots) == 1:  # in two thirds of the time
            place = int(link[0])
            table, place = (self.records, place) if place >= 0 else (self.tails.records, -1 - place)
            return np.concatenate([own, table.flat(np.array([place]), observed)], axis=1)
        apart = link < 0
        following = self.records.flat(np.maximum(link, 0), observed)
        following[apart] = self.tails.records.flat(-1 - link[apart], observed)
        return np.concatenate([own, following], axis=1)

    def _index(self, index: np.ndarray) -> Tensor:
        return torch.from_numpy(index.astype(np.int64, copy=False)).to(self.device)

    # -- writing ----------------------------------------------------------------------------------

    def append(self, transitions: Transitions, written: int) -> None:
        """Write rows into the next slots, which do not reach beyond the end of the ring.

        Args:
            transitions: n rows in the stored dtypes.
            written: Number of rows written before.
        """
        n, start = len(transitions), written % self.capacity
        if n == 1 and self.records.in_numpy:
            row = {name: column.numpy(force=True) for name, column in transitions.columns().items()}
            return self.append_row(row, written)
        episode, previous = self._connect(transitions, written)
        self._release(start, min(start + n, written))
        after = np.flatnonzero(previous >= 0)
        before = previous[after] - written  # as rows among the added ones
        inside = before >= 0
        link = np.full(n, -1, dtype=np.int64)
        link[before[inside]] = start + after[inside]
        ends = np.flatnonzero(link < 0)
        link[ends] = -1 - self._put_apart(transitions, ends)
        derived = {"link": torch.from_numpy(link), "episode": torch.from_numpy(episode)}
        self.records.write(start, stored_columns(transitions.columns()) | derived)
        if self._kept_links is not None:
            self._kept_links[start : start + n] = link
        if not inside.all():
            self._relink(previous[after[~inside]] % self.capacity, start + after[~inside])
        self.episodes.forget_before(written + n - self.capacity)

    def append_row(self, row: dict[str, np.ndarray], written: int) -> None:
        """Do what `append` does for one row on the processor, in a third of the time.

        Args:
            row: Its columns, each of length 1, in the stored dtypes.
            written: Number of rows written before.
        """
        slot = written % self.capacity
        start, end = (b"".join(row[which + name].tobytes() for name in self.sorted) for which in ("", "next_"))
        done = bool(row["terminated"][0] or row["truncated"][0])
        number = int(row["episode"][0]) if "episode" in row else None
        episode, previous = self.episodes.connect_row(number, start, end, done, written)
        links = self.links
        if written >= self.capacity and links[slot] < 0:
            self.tails.free.append(-1 - int(links[slot]))
        tail = self.tails.put_row({name: row[f"next_{name}"] for name in self.observed})
        self.records.set_row(slot, {name: row[name] for name in stored_columns(row)})
        links[slot], self.records.array("episode")[slot] = -1 - tail, episode
        if previous >= max(0, written + 1 - self.capacity):
            before = previous % self.capacity
            self.tails.free.append(-1 - int(links[before]))
            links[before] = slot
        self.episodes.forget_before(written + 1 - self.capacity)

    def _connect(self, transitions: Transitions, written: int) -> tuple[np.ndarray, np.ndarray]:
        """Return episode ids, and the write numbers of what each row continues, −1 where nothing that stays stored."""
        starts, ends = observation_bytes(transitions.obs), observation_bytes(transitions.next_obs)
        done = (transitions.terminated | transitions.truncated).tolist()
        ids = None if transitions.episode is None else transitions.episode.tolist()
        episode, previous = self.episodes.connect(ids, starts, ends, done, written)
        previous[previous < written + len(starts) - self.capacity] = -1
        return episode, previous

    def _release(self, start: int, stop: int) -> None:
        """Give back what the rows in slots `start` to `stop`, about to be overwritten, keep apart."""
        links = self.links[start:stop]
        self.tails.drop(-1 - links[links < 0])

    def _put_apart(self, transitions: Transitions, rows: np.ndarray) -> np.ndarray:
        """Keep next_obs of `rows` apart; returns where."""
        index, parts = torch.from_numpy(rows), observation_parts(transitions.next_obs).items()
        return self.tails.put({column_of(name): part[index] for name, part in parts})

    def _relink(self, before: np.ndarray, after: np.ndarray) -> None:
        """Let rows stored earlier, in slots `before`, point to the slots `after` that now continue them."""
        self.tails.drop(-1 - self.links[before])
        self.links[before] = after
        if self._kept_links is not None:
            links = self.records.column("link")
            links.index_copy_(0, self._index(before), torch.from_numpy(after).to(links))

    def truncate(self, episode: int) -> None:
        """Truncate the newest row of a running episode; nothing is to continue it."""
        write, _ = self.episodes.open.pop(episode, (-1, b""))
        if write >= 0:
            self.records.column("truncated")[write % self.capacity] = True

    # -- state ------------------------------------------------------------------------------------

    def state(self, size: int) -> dict[str, Any]:
        """Return everything in the first `size` slots; the arrays share memory."""
        columns = {name: [list(shape), str(dtype)[6:]] for name, (shape, dtype) in self.columns.items()}
        rows = self.records.rows[:size]
        return {"columns": columns, "rows": rows, "tails": self.tails.state(), "links": self.episodes.state()}

    def load(self, state: dict[str, Any]) -> None:
        rows = as_tensor(state["rows"])
        self.records.rows[: len(rows)] = rows
        if self._kept_links is not None:
            self._kept_links[: len(rows)] = self.records.column("link")[: len(rows)].numpy(force=True)
        self.tails.load(state["tails"])
        self.episodes.load(state["links"])
