"""Rows on one device with an index of neighbors, and blended batches of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.captured import MOST_GRAPHS, CapturedFunction
from interreplay.neighborhood import NO_NEIGHBOR
from interreplay.neighborhood.knn_index.neighbor_lists import NeighborLists
from interreplay.storage.columns import all_finite, check_finite
from interreplay.storage.state_copies import restore_generator
from interreplay.transitions import Transitions, unchecked

WAITING = 1024
"""Maximum number of rows that wait to be indexed."""
WAITING_SHARE = 256
"""At most one in 256 rows waits when a batch is drawn."""
PORTION = 1 << 16
"""Rows that are copied to the device at a time."""
ALIGNED = 4
"""Rows are padded to a multiple of four numbers, which a GPU gathers at once."""
CONTROL = 4
"""Numbers for a draw that are stored in front of each new row, as float64."""
REWARD, DISCOUNT, WEIGHT, MIX, PROBABILITY, TERMINATED, TRUNCATED, SINGLE = range(8)
"""Order of the single numbers at the end of a row, and their count; draws write λ and the probability."""


class DeviceRows:
    """A ring of rows on a device, from which anchors are drawn uniformly and blended with one of k neighbors.

    New rows wait behind the ring until they are indexed, many at once, because all rows are compared with them.
    Meanwhile the rows that they replace are no longer drawn, but remain neighbors. On a GPU, a draw is a CUDA graph,
    and only indexing waits for the GPU.

    Args:
        capacity: Number of slots.
        example: Rows with the shapes of all rows.
        k: Number of neighbors to draw from.
        alpha: λ ~ Beta(α, α).
        gamma: Discount factor per step.
        device: Device of the rows.
        seed: Seed of all random numbers.
    """

    def __init__(
        self, capacity: int, example: Transitions, k: int, alpha: float, gamma: float, device: torch.device, seed: int
    ):
        self._capacity = capacity
        self._gamma = gamma
        self._device = device
        self._obs_shape = example.obs.shape[1:]
        self._action_shape = example.actions.shape[1:]
        obs = math.prod(self._obs_shape)
        actions = math.prod(self._action_shape)
        # A row: numbers for draws, obs, actions, next_obs, and single numbers from column `_single` on.
        self._widths = (2 * CONTROL, obs, actions, obs)
        self._single = sum(self._widths)
        width = math.ceil((self._single + SINGLE) / ALIGNED) * ALIGNED
        self._room = min(WAITING, capacity)
        self._table = torch.zeros(capacity + self._room + 1, width, device=device)
        self._new = torch.zeros(self._room + 1, width, pin_memory=device.type == "cuda")
        self._lists = NeighborLists(capacity, obs + actions, k, device)
        self._concentration = torch.tensor([alpha, alpha], device=device)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._draws: dict[tuple[int, bool], CapturedFunction] = {}
        self._written = 0
        self._waiting = 0  # rows behind the ring
        self._sent = 0  # those of them that are on the device

    @property
    def _features(self) -> Tensor:
        """[s; a] of the rows in all slots ``(capacity, d)``."""
        return self._table[: self._capacity, self._widths[0] : sum(self._widths[:3])]

    def reseed(self, seed: int) -> None:
        """Seed the generator of all further draws."""
        self._generator.manual_seed(seed)

    def add(self, rows: Transitions) -> None:
        """Add rows; more than the capacity replace each other.

        Raises:
            NonFiniteError: If a column contains NaN or infinity; nothing is added.
            ValueError: If a number is too large for float32; nothing is added.
        """
        if len(rows) > self._room:
            check_float32(rows)
        for start in range(0, len(rows), self._room):
            portion = rows if len(rows) <= self._room else rows[start : start + self._room]
            if self._waiting + len(portion) > self._room:
                self._index()
            out = self._new.numpy()[self._waiting : self._waiting + len(portion)]
            self._pack(portion, out)
            if not np.isfinite(out[:, 2 * CONTROL :]).all():
                check_float32(portion)
            self._waiting += len(portion)
            self._written += len(portion)
            self._set_control()

    def truncate(self, writes: Iterable[int]) -> None:
        """Mark the stored rows with the write numbers `writes` as truncated."""
        column = self._single + TRUNCATED
        for write in writes:
            place = write % self._capacity
            waiting = write - (self._written - self._waiting)
            if waiting >= 0:
                self._new[waiting, column] = 1.0
                place = self._capacity + waiting
            self._table[place, column] = 1.0

    def _pack(self, rows: Transitions, out: np.ndarray) -> None:
        """Write rows into a float32 array ``(n, width)``."""
        n = len(rows)
        terminated = rows.terminated.numpy(force=True)
        start = self._widths[0]
        for column, width in zip((rows.obs, rows.actions, rows.next_obs), self._widths[1:], strict=True):
            out[:, start : start + width] = column.numpy(force=True).reshape(n, width)
            start += width
        single = out[:, start:]
        single[:, REWARD] = rows.rewards.numpy(force=True)
        single[:, DISCOUNT] = self._gamma * ~terminated
        single[:, WEIGHT] = 1.0
        single[:, TERMINATED] = terminated
        single[:, TRUNCATED] = rows.truncated.numpy(force=True)

    def _set_control(self) -> None:
        """Store the numbers that a draw needs in front of the newest row, or behind all rows if none waits."""
        count = min(self._written, self._capacity)
        oldest = (self._written - count) % self._capacity
        newest = self._waiting - 1 if self._waiting else self._room
        control = self._new.numpy()[newest, : 2 * CONTROL].view(np.float64)
        control[:] = (count, oldest, count - self._waiting, self._capacity + newest)

    def _send(self) -> None:
        """Copy new rows to the device."""
        new = self._new[self._sent : self._waiting]
        self._table[self._capacity + self._sent : self._capacity + self._waiting].copy_(new, non_blocking=True)
        self._sent = self._waiting

    def _waiting_slots(self) -> Tensor:
        """Return the slots ``(waiting,)`` to which the waiting rows will move, oldest first."""
        return torch.arange(self._written - self._waiting, self._written, device=self._device) % self._capacity

    def _index(self) -> None:
        """Move all waiting rows into the ring and update the lists of neighbors."""
        self._send()
        start = (self._written - self._waiting) % self._capacity
        waiting = self._table[self._capacity : self._capacity + self._waiting]
        self._table[self._waiting_slots()] = waiting.clone()
        self._lists.replace(self._features, start, self._waiting)
        self._waiting = 0
        self._sent = 0
        self._set_control()

    # -- Batches -----------------------------------------------------------------------------------

    def draw(self, size: int, probability: float) -> tuple[Tensor, Tensor, Tensor]:
        """Draw a batch of n rows, each of which is blended with a probability.

        Returns:
            Rows ``(n, width)``, flags ``(n, 2)``, and slots of anchors and partners ``(2, n)``, see `columns`. On a
            GPU, these are the same tensors for each draw of a size.
        """
        if self._waiting * WAITING_SHARE > min(self._written, self._capacity):
            self._index()
        if self._waiting - self._sent > 1:
            self._send()
        self._sent = self._waiting  # a draw copies the newest row itself
        inputs = [self._new[self._waiting - 1 if self._waiting else self._room]]
        if probability < 1:
            inputs.append(torch.tensor(probability))
        if self._device.type != "cuda":
            return self._draw(size, [column.to(self._device) for column in inputs])
        key = size, probability < 1
        if key not in self._draws and len(self._draws) == MOST_GRAPHS:
            self._draws.clear()
        if key not in self._draws:
            self._draws[key] = CapturedFunction(lambda given: self._draw(size, given), inputs, [self._generator])
        result: tuple[Tensor, Tensor, Tensor] = self._draws[key](inputs)
        return result

    def _draw(self, size: int, inputs: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Draw a batch by operations that a CUDA graph can repeat.

        Args:
            size: Number of rows n.
            inputs: The newest row with the numbers of rows, the slot of the oldest, the number of indexed rows that can
                be drawn, and the place of the newest row; and the probability of blending if it is below 1.
        """
        row = inputs[0]
        count, oldest, indexed, place_of_newest = row[: 2 * CONTROL].view(torch.float64).unbind()
        self._table.index_copy_(0, place_of_newest.long()[None], row[None])
        ticket = torch.rand(3, size, generator=self._generator, device=self._device, dtype=torch.float64)
        turn = (ticket[0] * count).floor_()  # 0 is the oldest row; integers are exact in float64
        slots = torch.remainder(turn + oldest, self._capacity).long()
        behind = turn >= indexed
        place = torch.where(behind, (turn + (self._capacity - indexed)).long(), slots)
        available = torch.where(behind, 0.0, self._lists.number[slots])
        partners = self._lists.slots[slots, (ticket[1] * available).long()].long()
        anchors = self._table[place]
        others = self._table[partners]
        ended = self._single + TERMINATED
        blended = (anchors[:, ended] + others[:, ended] == 0) & (available > 0)
        if len(inputs) > 1:
            blended &= ticket[2] < inputs[1]
        mix = torch._sample_dirichlet(self._concentration.expand(size, 2), generator=self._generator)[:, 0]
        mix = torch.where(blended, mix, 1.0)
        rows = torch.lerp(others, anchors, mix[:, None])
        rows[:, self._single + MIX] = mix
        rows[:, self._single + PROBABILITY] = count.reciprocal()
        partners = torch.where(mix < 1.0, partners, NO_NEIGHBOR)
        return rows, anchors[:, ended : ended + 2] > 0, torch.stack([slots, partners])

    def columns(self, drawn: tuple[Tensor, Tensor, Tensor]) -> dict[str, Any]:
        """Return the columns of a batch as arguments of `Sample`, which share memory with the result of `draw`."""
        rows, flags, slots = drawn
        _, obs, actions, next_obs, numbers = rows.split((*self._widths, rows.shape[1] - self._single), 1)
        single = numbers.unbind(1)
        terminated, truncated = flags.unbind(1)
        transitions = unchecked(
            obs=obs.view(len(rows), *self._obs_shape),
            actions=actions.view(len(rows), *self._action_shape),
            rewards=single[REWARD],
            next_obs=next_obs.view(len(rows), *self._obs_shape),
            terminated=terminated,
            truncated=truncated,
            discounts=single[DISCOUNT],
        )
        return {
            "transitions": transitions,
            "slots": slots[0],
            "weights": single[WEIGHT],
            "neighbor_slots": slots[1],
            "mix": single[MIX],
            "probabilities": single[PROBABILITY],
        }

    # -- State -------------------------------------------------------------------------------------

    @staticmethod
    def nbytes_per_row(features: int, k: int) -> int:
        """Return the bytes of a row with its neighbors, at most, given the number of features of z = [s; a]."""
        return 4 * (2 * CONTROL + 2 * features + SINGLE + ALIGNED) + NeighborLists.nbytes_per_row(features, k)

    def fill(self, rows: Transitions, written: int) -> None:
        """Replace all rows by those in all used slots ``(n, ...)``, of which `written` have ever been written."""
        self._place(rows, written)
        self._lists.replace(self._features, 0, len(rows))
        self._set_control()

    def _place(self, rows: Transitions, written: int) -> None:
        for start in range(0, len(rows), PORTION):
            portion = rows[start : start + PORTION]
            packed = np.zeros((len(portion), self._table.shape[1]), np.float32)
            self._pack(portion, packed)
            self._table[start : start + len(portion)] = torch.from_numpy(packed).to(self._device)
        self._written = written

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the stored rows; tensors of a CPU share memory.

        Rows that waiting rows replace are no longer stored elsewhere, but remain neighbors.
        """
        return {
            "waiting": self._waiting,
            "replaced": self._table[self._waiting_slots()].cpu(),
            "lists": self._lists.state_dict(),
            "rng": self._generator.get_state().numpy(),
        }

    def load_state_dict(self, state: dict[str, Any], rows: Transitions, written: int) -> None:
        """Restore a state, given the rows in all used slots ``(n, ...)`` and the number that has ever been written.

        If the state has another k, the rows are indexed again.
        """
        restore_generator(self._generator, state["rng"])
        if int(state["lists"]["k"]) != self._lists.k:
            self.fill(rows, written)
            return
        self._place(rows, written)
        waiting = int(state["waiting"])
        self._waiting = waiting
        self._sent = waiting
        slots = self._waiting_slots()
        self._table[self._capacity : self._capacity + waiting] = self._table[slots]
        self._new[:waiting] = self._table[slots].cpu()
        self._table[slots] = torch.as_tensor(state["replaced"]).to(self._device)
        self._set_control()
        self._lists.load_state_dict(state["lists"], self._features)


def check_float32(rows: Transitions) -> None:
    """Reject rows with numbers that are not finite as float32.

    Raises:
        NonFiniteError: If a column contains NaN or infinity.
        ValueError: If a number is too large for float32.
    """
    check_finite(rows.columns())
    for column in (rows.obs, rows.actions, rows.rewards, rows.next_obs):
        if not all_finite(column.float()):
            raise ValueError("a row contains a number that is too large for float32")
