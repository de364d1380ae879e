"""NMER with rows, neighbors and draws on one device, see `docs/decisions/0037-nmer-on-a-gpu.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer.device_rows import DeviceRows, check_float32
from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.buffer.sample import Sample
from interreplay.errors import check_number
from interreplay.learning.captured import MOST_GRAPHS
from interreplay.neighborhood import KNN, NoNeighbors
from interreplay.part import Context
from interreplay.storage.columns import Columns, get_columns, is_observation, num_features
from interreplay.storage.ring import Storage
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.transitions import Transitions, cat

UNSTORED = 256
"""Rows after which new rows are written to main memory, if nothing has read them before."""


class DeviceNMER(ReplayBuffer):
    """`NMER` on the device of the updates: rows, neighbors, draws and blends. Intended for GPUs.

    Batches have the distribution of `NMER`, with two differences. All neighbors are found, in a scale that is off by
    at most .75 %. The newest rows, at most one in 256, are drawn, but until they are indexed, they are not blended, and
    the rows that they replace remain neighbors. Rows are also stored in main memory, from where checkpoints and
    diagnostics read them. Batches are float32 and contain the columns that updates read.

    Anchors are drawn uniformly. Observations and actions must be arrays of floats.

    Source: Sander et al. 2022, Neighborhood mixup experience replay, arXiv:2205.09117.

    Args:
        k: Number of neighbors to draw from.
        alpha: λ ~ Beta(α, α).
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        n_step: Must be 1.
        device: Device of rows and batches. An algorithm replaces it by the device of its updates.

    Raises:
        ValueError: If an argument is out of range.
    """

    synthesizer: Mixup

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        k: int = 10,
        alpha: float = 0.75,
        prob_interpolation: float = 1.0,
        interp_decay: float = 0.0,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        if n_step not in (1, (1, 1), [1, 1]):
            raise ValueError(f"n_step is {n_step!r}; expected 1, or NMER instead of DeviceNMER")
        check_number("k", k, 1, whole=True)
        self._k = k
        self._alpha = alpha
        self._rows: DeviceRows | None = None
        self._written = 0
        self._unstored: list[Transitions] = []
        mixup = Mixup(Beta(alpha), prob_interpolation, interp_decay=interp_decay)
        # The neighbors are found on the device.
        super().__init__(capacity, neighborhood=NoNeighbors(), synthesizer=mixup, gamma=gamma, seed=seed, device=device)
        self._batches: dict[tuple[int, int], tuple[Any, list[Sample]]] = {}  # columns that draws write

    @property
    def storage(self) -> Storage:
        """All rows in main memory; new ones are written when they are needed, many at once."""
        self._store()
        return self._storage

    @storage.setter
    def storage(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def rng(self) -> np.random.Generator:
        """Source of the seed of the generator on the device; a new one replaces that generator's state."""
        return self._rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self._rng = rng
        if self._rows is not None:
            self._rows.reseed(self._new_seed())

    @property
    def capacity(self) -> int:
        return self._storage.capacity

    def __len__(self) -> int:
        return min(self._written, self.capacity)

    def check(self, columns: Columns) -> None:
        super().check(columns)
        for name, (_, dtype) in columns.items():
            if is_observation(name) or name == "actions":
                kind = str(dtype) if name in ("obs", "actions") else "a part of a Dict"
                if not dtype.is_floating_point or kind != str(dtype):
                    raise ValueError(f"{name} is {kind}; expected arrays of floats, or NMER instead of DeviceNMER")

    def connect(self, context: Context) -> None:
        super().connect(context)
        if context.device is not None and context.device != self.device:
            self.device = context.device
            if len(self):
                self._fill()

    # -- Rows --------------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> Tensor:
        if not len(transitions):
            return self._storage.next_replaced(0)
        if not self._written:
            self.check(get_columns(transitions))
        transitions, _ = self._storage.convert(transitions)
        if self._rows is None or transitions.extras:
            check_float32(transitions)  # later rows without extras are checked when they are packed
        if self._rows is None:
            self._rows = self._rows_like(transitions)
        self._rows.add(transitions)
        self._written += len(transitions)
        self._unstored.append(transitions)
        if not self._storage.written or self._written - self._storage.written >= UNSTORED:
            self._store()
        else:
            self._unstored[-1] = transitions.map(torch.clone)  # the caller may change its arrays
        count = len(transitions)
        return self._storage.consecutive_slots((self._written - count) % self.capacity, count)

    def check_rows(self, transitions: Transitions) -> Transitions:
        transitions, _ = self._storage.convert(transitions)  # `storage` would write the new rows
        return transitions

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        ended = list(map(int, episodes))
        if not ended or self._rows is None:
            return  # `storage` would write the new rows
        running = self.storage.chain.episodes.open
        newest = [running[episode][0] for episode in ended if episode in running]
        super().truncate_episodes(ended)
        self._rows.truncate(newest)

    def _store(self) -> None:
        """Write new rows to main memory."""
        if self._unstored:
            rows = cat(self._unstored)
            self._unstored = []
            for start in range(0, len(rows), self.capacity):
                self._storage.write(rows[start : start + self.capacity])

    def _rows_like(self, example: Transitions) -> DeviceRows:
        """Return empty rows on the device with the shapes of an example."""
        seed = self._new_seed()
        return DeviceRows(
            self.capacity, example, self._k, alpha=self._alpha, gamma=self.view.gamma, device=self.device, seed=seed
        )

    def _new_seed(self) -> int:
        return int(self.rng.integers(2**62))

    def draw_from(self, storage: Storage) -> None:
        super().draw_from(storage)
        self._written = storage.written
        self._fill()

    def _fill(self) -> None:
        """Copy all rows from main memory to the device."""
        rows = self.storage[torch.arange(len(self))]
        self._rows = self._rows_like(rows)
        self._rows.fill(rows, self._written)

    # -- Batches -----------------------------------------------------------------------------------

    def sample(self, size: int) -> Sample:
        return self._make_sample(tuple(part.clone() for part in self._draw(size)))

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw several batches at once; on a GPU, the next draw overwrites them."""
        drawn = self._draw(size * count)
        key = size, count
        if key not in self._batches or self._batches[key][0] is not drawn:
            self._batches.pop(key, None)
            if len(self._batches) == MOST_GRAPHS:
                self._batches.clear()
            self._batches[key] = drawn, self._make_sample(drawn).split(size)
        for sample in self._batches[key][1]:
            yield sample.replace(write_count=self._written)

    def _draw(self, size: int) -> Any:
        if size < 1 or self._rows is None:
            raise ValueError(f"cannot sample {size} rows from {len(self)} stored ones; expected at least 1 of each")
        return self._rows.draw(size, self.synthesizer.probability)

    def _make_sample(self, drawn: Any) -> Sample:
        assert self._rows is not None
        return Sample(**self._rows.columns(drawn), write_count=self._written)

    # -- State -------------------------------------------------------------------------------------

    def nbytes(self, columns: Columns) -> int:
        """Return the memory of the full buffer in bytes: main memory, plus the rows on the device if it is a CPU."""
        total = super().nbytes(columns)
        if self.device.type == "cpu":
            total += self.nbytes_on_device(columns)
        return total

    def nbytes_on_device(self, columns: Columns) -> int:
        """Return the memory in bytes of the full buffer's rows and neighbors on the device."""
        return self.capacity * DeviceRows.nbytes_per_row(num_features(columns), self._k)

    def part_names(self) -> dict[str, str]:
        """Return the classes of NMER's parts, because NMER loads states of this buffer and vice versa."""
        return super().part_names() | {"neighborhood": KNN.__name__}

    def state_view(self) -> dict[str, Any]:
        state = super().state_view()
        if self._rows is not None:
            state["device"] = self._rows.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._unstored = []
        super().load_state_dict(state)
        self._written = self._storage.written
        self._rows = None
        if "device" in state:
            rows = self._storage[torch.arange(len(self._storage))]
            self._rows = self._rows_like(rows)
            self.rng.bit_generator.state = state["rng"]  # before the seed of these rows was drawn
            self._rows.load_state_dict(state["device"], rows, self._written)
        elif self._written:  # a state of `NMER`
            self._fill()
