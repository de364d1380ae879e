"""ReplayBuffer: storage, selection, neighborhood and synthesis put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import as_range
from interreplay.buffer.composition import Composition
from interreplay.buffer.gathering import Gathered, read_neighbors
from interreplay.buffer.sample import Sample
from interreplay.credit import AnchorPriority, PriorityUpdate
from interreplay.neighborhood import NO_NEIGHBOR, Neighborhood, Neighbors, NoNeighbors
from interreplay.part import evict, wrong_answer
from interreplay.selection import Selector, Uniform
from interreplay.storage.columns import columns_of
from interreplay.storage.read_views import read_view
from interreplay.storage.ring import Storage
from interreplay.storage.state_copies import copy_arrays
from interreplay.synthesis import Identity, Synthesized, Synthesizer
from interreplay.transitions import Observation, Transitions


class ReplayBuffer(Composition):
    """Selects anchors, gathers their neighbors and synthesizes a batch.

    Args:
        capacity: Number of transitions to keep; the oldest make room.
        selector: Draws anchors; uniformly by default.
        neighborhood: Gathers what they are mixed with; nothing by default.
        synthesizer: Makes the batch; keeps the anchors by default.
        credit: Whose priority a TD error changes; the anchor's by default.
        n_step: Transitions come back as n-step transitions; a pair (low, high) draws n for each batch, both included.
        gamma: Discount factor per step.
        seed: Of all randomness; None draws one from the system.
        device: Torch device on which rows are kept and batches are made.

    Raises:
        ValueError: When an argument is out of range or parts do not fit each other.
    """

    def __init__(
        self,
        capacity: int,
        selector: Selector | None = None,
        neighborhood: Neighborhood | None = None,
        synthesizer: Synthesizer | None = None,
        credit: PriorityUpdate | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str | torch.device = "cpu",
    ):
        self._n_step_range = None
        if isinstance(n_step, Sequence):
            self._n_step_range = as_range("n_step", n_step)
            n_step = self._n_step_range[1]
        super().__init__(
            Storage(capacity, device, gamma),
            read_view(n_step, gamma),
            selector if selector is not None else Uniform(),
            neighborhood if neighborhood is not None else NoNeighbors(),
            synthesizer if synthesizer is not None else Identity(),
        )
        self.credit = credit if credit is not None else AnchorPriority()
        self.credit.check(self.selector)
        self.rng = np.random.default_rng(seed)

    def add(self, transitions: Transitions) -> Tensor:
        """Store transitions.

        Args:
            transitions: Columns of length n, numpy or torch.

        Returns:
            Their slots ``(n,)`` int64. Of more rows than `capacity` only the newest stay.

        Raises:
            NonFiniteError: When a column holds NaN or infinity; nothing is stored then.
            ValueError: When the columns are not those of the rows stored before, or a part refuses them.
        """
        if not len(self.storage):
            self.check(columns_of(transitions))
        if not len(transitions):
            return self.storage.add(transitions)
        transitions = self.storage.cast(transitions)  # all rows are right before anything changes
        if len(transitions) <= self.capacity:
            return self._add(transitions)
        starts = range(0, len(transitions), self.capacity)
        return torch.cat([self._add(transitions[start : start + self.capacity]) for start in starts])

    def _add(self, transitions: Transitions) -> Tensor:
        slots = self.storage.write(transitions, evict(self.parts.values(), self.storage, len(transitions)))
        for part in self.parts.values():
            part.observe(self.storage, slots)
        return slots

    def sample(self, size: int) -> Sample:
        """Draw a batch.

        Args:
            size: Number of rows n.

        Raises:
            ValueError: When `size` is not positive or nothing is stored.
        """
        if size < 1 or not len(self):
            raise ValueError(f"cannot sample {size} rows from {len(self)} stored ones; expected at least 1 of each")
        if self._n_step_range is not None:
            low, high = self._n_step_range
            self._use_n_step(int(self.rng.integers(low, high, endpoint=True)))
        self.check_links()
        drawn = self.selector.draw(self.storage, size, self.rng)
        self.synthesizer.prepare(self.storage, self.rng)
        found = self._gather(drawn.slots)
        made = self.synthesizer(found.anchors, found.neighbors, self.rng)
        if not isinstance(made, Synthesized):
            raise wrong_answer(self.synthesizer, made, Synthesized, "(rows, mix)")
        rows, mix, partners = made.rows, made.mix, found.partners
        if mix is not None:
            mix = mix if found.alone is None else mix.masked_fill(found.alone, 1.0)
            unmixed = mix >= 1 if found.alone is None else (mix >= 1) | (partners < 0)
            partners = partners.masked_fill(unmixed, NO_NEIGHBOR)
            if self.synthesizer.recomputes_termination:
                rows = rows.replace(terminated=torch.where(mix < 1, rows.terminated, found.anchors.terminated))
        if rows.discounts is None:
            rows = rows.replace(discounts=self.view.gamma * (~rows.terminated).to(rows.rewards.dtype))
        slots, probabilities, weights = drawn.slots, drawn.probabilities, drawn.weights
        if weights is None:
            weights = self.credit.weights(self.storage, self.selector, slots, probabilities, partners, mix)
        written = self.storage.written
        targets = drawn.targets if rows is found.anchors else None  # of other rows they are others
        known = made.variances, made.row_weights, drawn.actor_weights, drawn.critic_loss, targets, drawn.origins
        return Sample(rows, slots, weights, partners, mix, probabilities, written, *known)

    def _use_n_step(self, n_step: int) -> None:
        if n_step != self.view.n_step:
            self.use_view(read_view(n_step, self.view.gamma))

    def _gather(self, slots: Tensor) -> Gathered:
        """Read the rows in `slots` ``(n,)``, and their neighbors where these are of use."""
        if not self.synthesizer.uses_neighbors:
            anchors = self.view.read(self.storage, slots)
            return Gathered(anchors, anchors, torch.full_like(slots, NO_NEIGHBOR), None)
        found = self.neighborhood.gather(self.storage, slots, self.rng)
        if not isinstance(found, Neighbors):
            raise wrong_answer(self.neighborhood, found, Neighbors, "(slots)")
        if found.rows is None:
            found = replace(found, slots=self.synthesizer.arrange(self.storage, slots, found.slots))
        return read_neighbors(self.view, self.storage, slots, found)

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw several batches, of one large draw where the rows of a batch are independent of each other.

        Where they are not, as with priorities that follow each batch's errors, every batch waits for its turn.

        Args:
            size: Rows of each.
            count: How many.
        """
        if self._n_step_range is None and all(part.independent_rows for part in self.parts.values()):
            yield from self.sample(size * count).split(size)
        else:
            for _ in range(count):
                yield self.sample(size)

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        """Tell the selector how large the errors of a batch were.

        Rows overwritten since the batch was drawn are passed over.

        Args:
            sample: What `sample` returned.
            td_errors: δ ``(n,)``, signed or absolute, numpy or torch.
            scores: More of what an update found out of the rows, ``(n,)`` by name: `scores_wanted` has the names.

        Raises:
            ValueError: When `td_errors` or a score is not of shape ``(n,)``, or one that is needed is missing.
        """
        named = {name: self._column(sample, name, column) for name, column in (scores or {}).items()}
        errors = self.selector.errors_of(self._column(sample, "td_errors", td_errors), named)
        slots, partners, mix = sample.slots, sample.neighbor_slots, sample.mix
        if self.storage.written != sample.write_count:
            partners = torch.where(self._kept(partners, sample), partners, NO_NEIGHBOR)
            kept = self._kept(slots, sample)
            slots, partners, errors = slots[kept], partners[kept], errors[kept]
            mix = mix[kept] if mix is not None else None
        self.credit.update(self.selector, slots, partners, mix, errors)

    def _column(self, sample: Sample, name: str, values: Any) -> Tensor:
        """Return what was said of the rows of a batch as ``(n,)`` on the buffer's device."""
        column = torch.as_tensor(values).detach().to(self.device)
        if column.shape != sample.slots.shape:
            raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {tuple(sample.slots.shape)}")
        return column

    def by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        """Take a batch apart by the buffers that its rows came from: all of them from this one, which has no name."""
        yield "", self, sample, td_errors

    def recorded_observations(self) -> Iterator[Observation]:
        """Yield those of rows that were there before the first step, of which a replay buffer has none."""
        return iter(())

    def _kept(self, slots: Tensor, sample: Sample) -> Tensor:
        return (slots >= 0) & (self.storage.write_numbers(slots.clamp(min=0)) < sample.write_count)

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` without copying: the arrays share memory with the buffer, for saving at once."""
        state: dict[str, Any] = {
            "storage": self.storage.state_dict(),
            "rng": self.rng.bit_generator.state,
            **{name: part.state_dict() for name, part in self.parts.items()},
        }
        if self._n_step_range is not None:
            state["n_step"] = self.view.n_step
        return state

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on as if nothing had happened, in nested dicts of arrays and plain values."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; the next batch is the one that the saved buffer would have drawn.

        Raises:
            ValueError: When the state is that of another capacity or of other columns.
        """
        self.storage.load_state_dict(state["storage"])
        self.rng.bit_generator.state = state["rng"]
        if self._n_step_range is not None:
            self._use_n_step(int(state["n_step"]))
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
