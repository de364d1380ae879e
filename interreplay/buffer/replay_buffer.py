"""The replay buffer: a storage, a selector, a neighborhood and a synthesizer."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer.part_checks import (
    CHECKED_DRAWS,
    check_draw,
    check_neighbors,
    check_synthesized,
    check_weights,
    has_own_code,
)
from interreplay.buffer.sample import Sample
from interreplay.learning.update import CRITIC_LOSS
from interreplay.neighborhood import NO_NEIGHBOR, Neighborhood, Neighbors, NoNeighbors
from interreplay.part import Context, bind, class_names, overrides, result_error, union
from interreplay.selection import MixedSelection, Selector, Uniform
from interreplay.selection.credit import PriorityUpdate
from interreplay.storage.columns import Columns, get_columns, num_features
from interreplay.storage.read_views import ReadView, read_view
from interreplay.storage.ring import Storage
from interreplay.storage.row_table import RowTable
from interreplay.storage.state_copies import copy_arrays
from interreplay.synthesis import Blend, Identity, Synthesized, Synthesizer
from interreplay.transitions import Transitions, as_tensor, with_extras

BASES: dict[str, type[Selector | Neighborhood | Synthesizer]] = {
    "selector": Selector,
    "neighborhood": Neighborhood,
    "synthesizer": Synthesizer,
}
"""The base class of each part."""
LINK_CHECK_ROWS = 64
"""Number of rows after which `check_links` decides whether rows continue each other."""


class ReplayBuffer:
    """Selects anchors, gathers their neighbors and synthesizes a batch.

    Args:
        capacity: Maximum number of transitions; new ones replace the oldest.
        selector: Draws anchors; uniform by default.
        neighborhood: Gathers neighbors of the anchors; none by default, which a `Blend` rejects.
        synthesizer: Creates the batch; by default it returns the anchors.
        credit: Defines which rows' priorities a TD error changes; the anchors' by default.
        n_step: Batches contain n-step transitions. A pair (low, high) draws n from this range for each batch.
        gamma: Discount factor per step.
        seed: Seed of all random numbers; None for a random seed.
        device: Torch device of batches. Rows are kept in main memory.

    Attributes:
        view: How rows are read: as single steps or as n-step transitions.

    Raises:
        ValueError: If an argument is out of range, a part has another base class, or parts are incompatible.
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
            whole = len(n_step) == 2 and all(isinstance(end, Integral) and not isinstance(end, bool) for end in n_step)
            if not whole or not 1 <= n_step[0] <= n_step[1]:
                raise ValueError(
                    f"n_step is {n_step!r}; expected an integer of 1 or more, or two, the smaller one first"
                )
            self._n_step_range = (int(n_step[0]), int(n_step[1]))
            n_step = self._n_step_range[1]
        self.storage = Storage(capacity, gamma)
        self.selector = Uniform() if selector is None else selector
        self.neighborhood = NoNeighbors() if neighborhood is None else neighborhood
        self.synthesizer = Identity() if synthesizer is None else synthesizer
        for name, part in self.parts.items():
            if not isinstance(part, BASES[name]):
                raise ValueError(
                    f"{name} is {part!r}; expected an object of a class derived from {BASES[name].__name__}"
                )
        if neighborhood is None and isinstance(self.synthesizer, Blend) and self.synthesizer.uses_neighbors:
            raise ValueError(
                f"neighborhood is None and {type(self.synthesizer).__name__} blends each row with a neighbor; "
                "expected a neighborhood, such as KNN() or RandomNeighbor()"
            )
        self.use_view(read_view(n_step, gamma))
        self.device = torch.device(device)
        self.credit = PriorityUpdate() if credit is None else credit
        self.credit.check(self.selector)
        try:
            self.rng = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise ValueError(f"seed is {seed!r}; expected an integer of 0 or more, or None") from None
        self._owner = object()
        self._links_checked = False
        self._checking = [part for part in self.parts.values() if overrides(part, "check_rows")]
        self._draws_to_check = CHECKED_DRAWS * any(map(has_own_code, self.parts.values()))

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def capacity(self) -> int:
        return self.storage.capacity

    @property
    def parts(self) -> dict[str, Selector | Neighborhood | Synthesizer]:
        return {"selector": self.selector, "neighborhood": self.neighborhood, "synthesizer": self.synthesizer}

    # -- Rows --------------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> Tensor:
        """Store transitions.

        Args:
            transitions: Columns of length n, numpy or torch.

        Returns:
            Their slots ``(n,)`` int64. If there are more rows than `capacity`, only the newest are kept.

        Raises:
            NonFiniteError: If a column contains NaN or infinity; nothing is stored.
            ValueError: If the columns differ from those stored before, or a part rejects them or needs another one;
                nothing is stored.
        """
        if not len(self.storage):
            self.check(get_columns(transitions))
            required = self.columns_wanted & union(self.parts.values(), "needs")
            with_extras(transitions, required)  # rejects rows without these columns
        if not len(transitions):
            return self.storage.add(transitions)
        transitions = self.check_rows(transitions)
        if not self.storage.written:
            self._bind_parts()
        if len(transitions) <= self.capacity:
            return self._add(transitions)
        slots = []
        for start in range(0, len(transitions), self.capacity):
            slots.append(self._add(transitions[start : start + self.capacity]))
        return torch.cat(slots)

    def check_rows(self, transitions: Transitions) -> Transitions:
        """Return transitions in the stored dtypes, after all checks that come before storing; arguments as for `add`.

        Raises:
            NonFiniteError: If a column contains NaN or infinity.
            ValueError: If the columns differ from those stored before, or a part rejects the rows.
        """
        transitions = self.storage.cast(transitions)
        for part in self._checking:
            part.check_rows(transitions)
        return transitions

    def _add(self, transitions: Transitions) -> Tensor:
        if self.storage.written + len(transitions) > self.capacity:
            replaced = self.storage.next_replaced(len(transitions))
            for part in self.parts.values():
                part.evict(self.storage, replaced)
        slots = self.storage.write(transitions)
        for part in self.parts.values():
            part.observe(self.storage, slots)
        return slots

    def _bind_parts(self) -> None:
        for part in self.parts.values():
            bind(part, self._owner)

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """Mark the newest rows of running episodes as truncated, because no rows will follow.

        Args:
            episodes: Episode ids; ids of other episodes are ignored.
        """
        self.storage.truncate_episodes(episodes)

    def draw_from(self, storage: Storage) -> None:
        """Replace the empty storage by a filled one; all parts observe its rows.

        Raises:
            ValueError: If this buffer is not empty, the capacities differ, or a part rejects the rows.
        """
        if len(self) or storage.capacity != self.capacity:
            raise ValueError(
                f"{self!r} cannot draw from a storage with capacity {storage.capacity:,}; "
                "expected an empty buffer with the same capacity"
            )
        self.check(storage.columns)
        self._bind_parts()
        self.storage = storage
        oldest = (storage.written - len(storage)) % storage.capacity
        slots = storage.consecutive_slots(oldest, len(storage))
        for part in self.parts.values():
            part.observe(storage, slots)

    def read(self, slots: Tensor) -> Transitions:
        """Return the transitions in `slots` (int64, any shape) as batches contain them, for example with n steps.

        Raises:
            IndexError: If a slot is negative or beyond the capacity.
        """
        return self.view.read(self.storage, slots)

    # -- Batches -----------------------------------------------------------------------------------

    def sample(self, size: int) -> Sample:
        """Draw a batch.

        Args:
            size: Number of rows n.

        Raises:
            ValueError: If `size` is not a positive integer or nothing is stored.
            PartError: If a part violates its contract. With users' parts, the first `CHECKED_DRAWS` draws are checked.
        """
        if not isinstance(size, Integral) or size < 1 or not len(self):
            raise ValueError(f"cannot sample {size!r} rows from {len(self)} stored ones; expected at least 1 of each")
        if self._n_step_range is not None:
            low, high = self._n_step_range
            self._use_n_step(int(self.rng.integers(low, high, endpoint=True)))
        self.check_links()
        draw = self.selector.draw(self.storage, size, self.rng)
        if self._draws_to_check:
            check_draw(self.selector, draw, size, len(self))
        self.synthesizer.prepare(self.storage, self.rng)
        anchors, neighbors, partners, alone = self._gather(draw.slots)
        made = self.synthesizer(anchors, neighbors, self.rng)
        if not isinstance(made, Synthesized):
            raise result_error(self.synthesizer, made, Synthesized, "(rows, mix)")
        if self._draws_to_check:
            check_synthesized(self.synthesizer, made, anchors)
        rows = made.rows
        mix = made.mix
        if mix is not None:
            if alone is None:
                unmixed = mix >= 1
            else:
                mix = mix.masked_fill(alone, 1.0)
                unmixed = (mix >= 1) | (partners < 0)
            partners = partners.masked_fill(unmixed, NO_NEIGHBOR)
            if self.synthesizer.recomputes_termination:
                rows = rows.replace(terminated=torch.where(mix < 1, rows.terminated, anchors.terminated))
        if rows.discounts is None:
            discounts = anchors.discounts
            if self.view.n_step == 1:
                discounts = self.view.gamma * (~rows.terminated).to(rows.rewards.dtype)
            rows = rows.replace(discounts=discounts)
        weights = draw.weights
        if weights is None:
            weights = self.credit.weights(
                self.storage, self.selector, draw.slots, draw.probabilities, partners=partners, mix=mix
            )
            if self._draws_to_check:
                check_weights(self.selector, weights, size)
        self._draws_to_check = max(0, self._draws_to_check - 1)
        return Sample(
            transitions=rows,
            slots=draw.slots,
            weights=weights,
            neighbor_slots=partners,
            mix=mix,
            probabilities=draw.probabilities,
            write_count=self.storage.written,
            variances=made.variances,
            row_weights=made.row_weights,
            actor_weights=draw.actor_weights,
            critic_loss=draw.critic_loss,
            targets=draw.targets if rows is anchors else None,  # changed rows have other targets
            origins=draw.origins,
        ).to(self.device)

    def _use_n_step(self, n_step: int) -> None:
        if n_step != self.view.n_step:
            self.use_view(read_view(n_step, self.view.gamma))

    def _gather(self, slots: Tensor) -> tuple[Transitions, Transitions, Tensor, Tensor | None]:
        """Read the rows in `slots` ``(n,)``, and their neighbors if the synthesizer uses them.

        Returns:
            Anchors ``(n, ...)``; neighbors ``(n, k, ...)``, or anchors in place of missing ones; the slot of the first
            neighbor of each row ``(n,)``; which rows have none, bool ``(n,)``, None if all have one or none is used.
        """
        if not self.synthesizer.uses_neighbors:
            anchors = self.view.read(self.storage, slots)
            return anchors, anchors, torch.full_like(slots, NO_NEIGHBOR), None
        found = self.neighborhood.gather(self.storage, slots, self.rng)
        if not isinstance(found, Neighbors):
            raise result_error(self.neighborhood, found, Neighbors, "(slots)")
        if self._draws_to_check:
            check_neighbors(self.neighborhood, found, slots, len(self))
        alone = None
        if not found.slots.shape[1]:
            anchors = self.view.read(self.storage, slots)
            neighbors = anchors
            first = torch.full_like(slots, NO_NEIGHBOR)
            alone = first < 0
        elif found.rows is not None:
            anchors = self.view.read(self.storage, slots)
            neighbors = found.rows
            first = found.slots[:, 0]
            alone = first == NO_NEIGHBOR
        else:
            first = found.slots[:, 0]
            others = found.slots
            if found.slots.numpy().min() < 0:
                others = found.stored_slots(slots)
                alone = first < 0
            anchors, neighbors = self.view.read_with_neighbors(self.storage, slots, others)
        if found.extras:
            neighbors = neighbors.replace(extras={**neighbors.extras, **found.extras})
        return anchors, neighbors, first, alone

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw several batches: in one large draw if rows are independent, otherwise one after the other.

        Rows are dependent, for example, if priorities follow the errors of each batch.

        Args:
            size: Number of rows of each batch.
            count: Number of batches.
        """
        if self._n_step_range is None and all(part.independent_rows for part in self.parts.values()):
            yield from self.sample(size * count).split(size)
        else:
            for _ in range(count):
                yield self.sample(size)

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        """Pass the TD errors of a batch to the selector, except for rows that have been overwritten.

        Args:
            sample: A batch returned by `sample`.
            td_errors: δ ``(n,)``, signed or absolute, numpy or torch.
            scores: Further results of the update by name, each ``(n,)``; `scores_wanted` contains the names.

        Raises:
            ValueError: If `td_errors` or a score does not have shape ``(n,)``, or a required score is missing.
        """
        errors = _check_column(sample, "td_errors", td_errors)
        named = {}
        for name, column in (scores or {}).items():
            named[name] = _check_column(sample, name, column)
        if type(self.selector).update is Selector.update and type(self.credit).update is PriorityUpdate.update:
            return  # copies from another device would wait for it
        for name, column in named.items():
            named[name] = column.cpu()
        errors = self.selector.errors_of(errors.cpu(), named)
        slots = sample.slots.cpu()
        partners = sample.neighbor_slots.cpu()
        mix = sample.mix
        if mix is not None:
            mix = mix.cpu()
        if self.storage.written != sample.write_count:
            partners = torch.where(self._is_kept(partners, sample), partners, NO_NEIGHBOR)
            kept = self._is_kept(slots, sample)
            slots = slots[kept]
            partners = partners[kept]
            errors = errors[kept]
            if mix is not None:
                mix = mix[kept]
        self.credit.update(self.selector, slots, partners, mix=mix, td_errors=errors)

    def _is_kept(self, slots: Tensor, sample: Sample) -> Tensor:
        """Return which `slots` ``(n,)`` still contain the rows from which a batch was drawn."""
        return (slots >= 0) & (self.storage.write_numbers(slots.clamp(min=0)) < sample.write_count)

    def split_by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        """Yield the name, the buffer, the rows and the errors of each part of a batch: one part without a name."""
        yield "", self, sample, td_errors

    def recorded_rows(self) -> Iterator[Transitions]:
        """Yield nothing: a replay buffer has no rows that were recorded before the run."""
        return iter(())

    # -- Requirements and settings -----------------------------------------------------------------

    def use_view(self, view: ReadView) -> None:
        """Draw the next batches with another view; the stored rows do not change.

        Raises:
            ValueError: If n-step rows are combined with a part that recomputes rewards or termination.
        """
        if (self.synthesizer.recomputes_termination or self.synthesizer.recomputes_rewards) and view.n_step > 1:
            raise ValueError(f"n_step is {view.n_step}; expected 1, because rewards or termination are recomputed")
        self.view = view
        self._needs_links = view.n_step > 1 or any(part.follows_episodes for part in self.parts.values())
        for part in self.parts.values():
            part.use_view(view)

    def check_links(self) -> None:
        """Warn once if rows without episode ids do not continue each other although a part requires it."""
        rows = self.storage.written
        if self._links_checked or not self._needs_links or rows < LINK_CHECK_ROWS:
            return
        self._links_checked = True
        broken = self.storage.broken_links
        if 2 * broken >= rows:
            warnings.warn(
                f"{broken} of {rows} rows do not continue the previous row; n-step returns, successors, hindsight and "
                "event tables treat each as the start of an episode. If rows are from several environments, pass "
                "episode ids: Transitions(..., episode=ids), one integer per row",
                stacklevel=3,
            )

    @property
    def columns_wanted(self) -> frozenset[str]:
        """Names of the extra columns that parts request with each row; see `Part`."""
        return union(self.parts.values(), "columns_wanted")

    @property
    def scores_wanted(self) -> frozenset[str]:
        """Names of the scores that parts request with the TD errors of each batch; see `Part`."""
        return union(self.parts.values(), "scores_wanted")

    @property
    def brings_critic_loss(self) -> bool:
        """Whether batches define the critic loss of all rows."""
        selectors: Collection[Selector] = [self.selector]
        if isinstance(self.selector, MixedSelection):
            selectors = self.selector.selectors.values()
        return all(each.critic_loss is not None or CRITIC_LOSS in each.needs for each in selectors)

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        """Reject an algorithm that does not provide what a part needs.

        Args:
            offers: Names of what the algorithm provides, see `interreplay.learning.update`.
            algorithm: Name of the algorithm, for the message.

        Raises:
            ValueError: With the names of what is missing.
        """
        lacking = sorted(union(self.parts.values(), "needs") - set(offers))
        if lacking:
            what = " and ".join(lacking)
            raise ValueError(
                f"{type(self).__name__} requires {what}, which {algorithm} does not provide; "
                "expected our SAC, TD3 or DDPG"
            )

    @property
    def wants_goal_functions(self) -> bool:
        """Whether a part computes rewards and needs the environment's functions for it."""
        return any(part.wants_goal_functions for part in self.parts.values())

    def connect(self, context: Context) -> None:
        """Provide parts with the algorithm's policy, the environment's goal functions, spaces and a device."""
        for part in self.parts.values():
            part.connect(context)

    def check(self, columns: Columns) -> None:
        """Reject rows that a part cannot process.

        Raises:
            ValueError: With the name of the column and its dtype.
        """
        for part in self.parts.values():
            part.check(columns)

    def nbytes(self, columns: Columns) -> int:
        """Return the memory in bytes of the full buffer for rows with these columns, assuming one long episode."""
        features = num_features(columns)
        parts = sum(part.nbytes(self.capacity, features) for part in self.parts.values())
        return self.capacity * RowTable(0, columns).width + parts

    def statistics(self) -> dict[str, float]:
        """Return statistics that batches do not contain; empty for a single buffer."""
        return {}

    def anneal(self, progress: float) -> None:
        """Move schedules, such as PER's β, to `progress`, the completed share of the run, from 0 to 1."""
        for part in self.parts.values():
            part.anneal(progress)

    # -- State -------------------------------------------------------------------------------------

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` without copying: the arrays share memory with the buffer."""
        state: dict[str, Any] = {
            "storage": self.storage.state_dict(),
            "rng": self.rng.bit_generator.state,
            "parts": self.part_names(),
            **{name: part.state_dict() for name, part in self.parts.items()},
        }
        if self._n_step_range is not None:
            state["n_step"] = self.view.n_step
        return state

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume exactly, in nested dicts of arrays and plain values."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state; the next batch equals the one that the saved buffer would have drawn.

        Raises:
            ValueError: If the state has another capacity, other columns or other parts; nothing changes then. Also if a
                part rejects its state or finds it incomplete.
        """
        own = self.part_names()
        saved = state.get("parts", own)  # missing in states of 0.3.0
        for name, expected in own.items():
            if saved[name] != expected:
                raise ValueError(f"the {name} of the state is {saved[name]}; expected {expected}")
        self.storage.load_state_dict(state["storage"])
        self.rng.bit_generator.state = state["rng"]
        if self._n_step_range is not None and "n_step" in state:  # not if n was fixed before
            self._use_n_step(int(state["n_step"]))
        for name, part in self.parts.items():
            try:
                part.load_state_dict(state[name])
            except KeyError as error:  # a part with other arguments
                raise ValueError(f"the {name} of the state has no {error}, which this {own[name]} requires") from error

    def part_names(self) -> dict[str, str]:
        """Return the class of each part by its name. A buffer only loads states of a buffer with the same classes."""
        return {name: class_names(part) for name, part in self.parts.items()}

    def __repr__(self) -> str:
        view = ""
        if self.view.n_step > 1:
            view = f", n_step={self.view.n_step}"
        parts = ", ".join(type(part).__name__ for part in self.parts.values())
        return f"{type(self).__name__}({len(self):,} of {self.capacity:,} rows{view}; {parts}; {self.device})"


def _check_column(sample: Sample, name: str, values: Any) -> Tensor:
    """Return values ``(n,)`` of a batch as a tensor."""
    column = as_tensor(values).detach()
    if column.shape != sample.slots.shape:
        raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {tuple(sample.slots.shape)}")
    return column
