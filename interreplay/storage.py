"""Storage: a ring of transitions that keeps each observation once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.layout import Columns, columns_of, fit, is_observation, observation_columns, stored_columns
from interreplay.links import EpisodeLinks, observation_bytes
from interreplay.n_step import accumulate
from interreplay.records import Records
from interreplay.tails import Tails
from interreplay.transitions import Observation, Transitions, join_parts, observation_parts, unchecked


class Storage:
    """A ring of `capacity` transitions on a device.

    The next observation of a row is the observation of the row that continues it, found through a link;
    only where nothing continues a row (yet) is it kept apart. Slots are reused in the order of writing, so
    the row with write number w lies in slot w mod capacity and is stored while w ≥ written − capacity: one
    number tells both where a row is and whether it still exists.

    Args:
        capacity: Number of transitions, positive.
        device: Torch device of the columns.
        n_step: Rows come back as n-step transitions: summed rewards, the observation n steps on, and
            ``discounts`` γ^m·(1 − terminated), m ≤ n, fewer at the end of an episode or of what is stored.
        gamma: Discount factor per step.
    """

    def __init__(self, capacity: int, device: str | torch.device = "cpu", n_step: int = 1, gamma: float = 0.99):
        if capacity < 1 or capacity >= 2**31:
            raise ValueError(f"capacity is {capacity}; expected 1 to 2³¹ − 1")
        if n_step < 1:
            raise ValueError(f"n_step is {n_step}; expected 1 or more")
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma is {gamma}; expected 0 to 1")
        self.capacity, self.device = int(capacity), torch.device(device)
        self.n_step, self.gamma = int(n_step), float(gamma)
        self.written = 0
        self._links = EpisodeLinks()
        self.columns: Columns = {}
        self.observed: list[str] = []
        self._records: Records | None = None
        self._tails: Tails | None = None

    # -- what is stored ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes taken by the columns; 0 before the first row is added."""
        return self.records.nbytes + self.tails.nbytes if self._records is not None else 0

    @staticmethod
    def columns_of(transitions: Transitions) -> Columns:
        """What a stored row of these transitions is made of, ``{name: (shape, dtype)}``."""
        return columns_of(transitions)

    @staticmethod
    def nbytes_of(capacity: int, columns: Columns) -> int:
        """Bytes of `capacity` rows of these columns."""
        return capacity * Records(0, columns, torch.device("cpu")).width

    @property
    def records(self) -> Records:
        if self._records is None:
            raise ValueError("the storage is empty; add transitions first")
        return self._records

    @property
    def tails(self) -> Tails:
        if self._tails is None:
            raise ValueError("the storage is empty; add transitions first")
        return self._tails

    def write_numbers(self, slots: Tensor) -> Tensor:
        """Write numbers of the rows that lie in `slots` now, the shape of `slots`, int64."""
        newest = self.written - 1
        return newest - torch.remainder(newest - slots, self.capacity)

    def successor(self, slots: Tensor) -> Tensor:
        """Slots of the rows that continue those in `slots` ``(n,)``, −1 where none does."""
        return self.records.column("link").index_select(0, slots).long().clamp_(min=-1)

    def column(self, name: str) -> Tensor:
        """A column of all slots ``(capacity, ...)``, named as in `Transitions.columns`; not to be written to."""
        return self.records.column(name)

    def features(self, slots: Tensor) -> Tensor:
        """z = [s; a] of `slots` ``(n,)``, flattened: float32 ``(n, d)``."""
        parts = self.records.unpack(self.records.take(slots), [*self.observed, "actions"]).values()
        return torch.cat([part.reshape(len(slots), -1).float() for part in parts], dim=1)

    # -- reading ----------------------------------------------------------------------------------

    def __getitem__(self, slots: Tensor) -> Transitions:
        """The transitions in `slots`, int64 of any shape, with ``discounts``.

        Raises:
            IndexError: When a slot is negative or beyond the capacity.
        """
        flat = slots.reshape(-1)
        rows = self.read(flat)
        if self.n_step > 1:
            rows = accumulate(self, flat, rows)
        return rows if slots.dim() == 1 else rows.map(lambda column: column.reshape(slots.shape + column.shape[1:]))

    def read(self, slots: Tensor) -> Transitions:
        """One-step transitions in `slots` ``(n,)``."""
        columns = self.records.unpack(self.records.take(slots), self.columns)
        terminated, rewards = columns["terminated"], columns["rewards"]
        return unchecked(
            obs=join_parts({name[4:]: columns[name] for name in self.observed}),
            actions=columns["actions"],
            rewards=rewards,
            next_obs=self._next_obs(columns["link"].long()),
            terminated=terminated,
            truncated=columns["truncated"],
            episode=columns["episode"],
            discounts=(~terminated).to(rewards.dtype).mul_(self.gamma),
            extras={name[7:]: column for name, column in columns.items() if name.startswith("extras.")},
        )

    def _next_obs(self, link: Tensor) -> Observation:
        """Observations that `link` ``(n,)`` points to: a slot, or −1 − the place among the tails."""
        columns = self.records.unpack(self.records.take(link.clamp(min=0)), self.observed)
        apart = (link < 0).nonzero()[:, 0]
        if len(apart):
            records = self.tails.records
            ends = records.unpack(records.take(-1 - link[apart]), self.observed)
            for name, column in columns.items():
                column[apart] = ends[name]
        return join_parts({name[4:]: column for name, column in columns.items()})

    # -- writing ----------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> Tensor:
        """Store transitions, the oldest rows making room.

        Args:
            transitions: Columns of length n, at most `capacity`.

        Returns:
            Their slots ``(n,)`` int64.

        Raises:
            ValueError: When there are more than `capacity` rows, or their columns, shapes or dtypes are
                not those of the rows stored before.
        """
        n = len(transitions)
        if n > self.capacity:
            raise ValueError(f"{n} transitions do not fit into a capacity of {self.capacity}; add them in parts")
        if n == 0:
            return torch.empty(0, dtype=torch.int64, device=self.device)
        transitions = self._fit(transitions)
        start, slots = self.written % self.capacity, []
        room = min(n, self.capacity - start)
        for part in (transitions,) if room == n else (transitions[:room], transitions[room:]):
            slots.append(self._append(part))
        return slots[0] if len(slots) == 1 else torch.cat(slots)

    def _append(self, transitions: Transitions) -> Tensor:
        """Add rows that do not reach beyond the end of the ring; returns their slots ``(n,)``."""
        start, n = self.written % self.capacity, len(transitions)
        episode, previous = self._connect(transitions)
        self._release(start, start + n)
        self.written += n
        self._write(transitions, start, episode, previous)
        self._links.forget_before(self.written - self.capacity)
        return torch.arange(start, start + n, device=self.device)

    def _fit(self, transitions: Transitions) -> Transitions:
        if self._records is None:
            self._allocate(columns_of(transitions))
        return fit(transitions, self.columns)

    def _allocate(self, columns: Columns) -> None:
        self.columns = columns
        self.observed = list(observation_columns(columns))
        self._records = Records(self.capacity, columns, self.device)
        self._tails = Tails(observation_columns(columns), self.device)

    def _connect(self, transitions: Transitions) -> tuple[np.ndarray, np.ndarray]:
        """Episode ids, and the write numbers of what each row continues, −1 where nothing that stays stored."""
        starts, ends = observation_bytes(transitions.obs), observation_bytes(transitions.next_obs)
        done = (transitions.terminated | transitions.truncated).cpu().numpy()
        if transitions.episode is None:
            episode, done = self._links.episodes(starts, ends, done)
        else:
            episode = transitions.episode.cpu().numpy()
        previous = self._links.connect(episode, starts, ends, done, self.written)
        previous[previous < self.written + len(transitions) - self.capacity] = -1
        return episode, previous

    def _release(self, start: int, stop: int) -> None:
        """Give back what the rows in slots `start` to `stop`, about to be overwritten, keep apart."""
        links = self.records.column("link")[start : min(stop, len(self))]
        if len(links):
            self.tails.drop(-1 - links[links < 0])

    def _write(self, transitions: Transitions, start: int, episode: np.ndarray, previous: np.ndarray) -> None:
        """Write rows from slot `start` on; `previous` ``(n,)`` are write numbers of the rows they continue."""
        n = len(transitions)
        after = np.flatnonzero(previous >= 0)
        before = previous[after] - (self.written - n)
        inside = before >= 0
        link = np.full(n, -1, dtype=np.int64)
        link[before[inside]] = start + after[inside]
        ends = np.flatnonzero(link < 0)
        link[ends] = -1 - self._put_apart(transitions, ends)
        derived = {"link": torch.from_numpy(link), "episode": torch.from_numpy(episode)}
        self.records.write(start, stored_columns(transitions) | derived)
        if not inside.all():
            self._relink(previous[after[~inside]] % self.capacity, start + after[~inside])

    def _put_apart(self, transitions: Transitions, rows: np.ndarray) -> np.ndarray:
        """Keep next_obs of `rows` apart; returns where."""
        index = torch.from_numpy(rows)
        parts = {f"obs.{k}" if k else "obs": part[index] for k, part in observation_parts(transitions.next_obs).items()}
        return self.tails.put(parts)

    def _relink(self, before: np.ndarray, after: np.ndarray) -> None:
        """Let rows stored earlier, in slots `before`, point to the slots `after` that now continue them."""
        links, index = self.records.column("link"), torch.from_numpy(before).to(self.device)
        self.tails.drop(-1 - links[index])
        links[index] = torch.from_numpy(after).to(links)

    def cut(self, episodes: Iterable[int]) -> None:
        """End running episodes that nothing will continue: their newest rows become truncated.

        Args:
            episodes: Ids; those that are not running are passed over.
        """
        for episode in episodes:
            row = self._links.open.pop(int(episode), None)
            if row is not None and row.write >= self.written - self.capacity:
                self.records.column("truncated")[row.write % self.capacity] = True

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything stored; the arrays share memory with the storage."""
        state: dict[str, Any] = {"written": self.written, "capacity": self.capacity, "links": self._links.state()}
        if self._records is not None:
            state["columns"] = {name: [list(shape), str(dtype)[6:]] for name, (shape, dtype) in self.columns.items()}
            state["rows"] = self._records.rows[: len(self)]
            state["tails"] = self.tails.state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ValueError: When the state is that of another capacity or of other columns.
        """
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the state has capacity {state['capacity']}; this storage has {self.capacity}")
        if "columns" in state:
            columns = {name: (tuple(shape), getattr(torch, dtype)) for name, (shape, dtype) in state["columns"].items()}
            if self._records is None:
                self._allocate(columns)
            if columns != self.columns:
                raise ValueError(f"the state has the columns {columns}; stored are {self.columns}")
        self.written = int(state["written"])
        self._links.load(state["links"])
        if "rows" in state:
            self.records.rows[: len(self)] = torch.as_tensor(state["rows"]).to(self.device)
            self.tails.load(state["tails"])
