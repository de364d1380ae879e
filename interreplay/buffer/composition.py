"""The parts of a replay buffer and the storage that they share."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable

import torch
from torch import Tensor

from interreplay.learning.update import CRITIC_LOSS
from interreplay.neighborhood import Neighborhood
from interreplay.part import Context, union
from interreplay.selection import MixedSelection, Selector
from interreplay.storage.columns import Columns, num_features
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.synthesis import Synthesizer
from interreplay.transitions import Transitions

BASES: dict[str, type[Selector | Neighborhood | Synthesizer]] = {
    "selector": Selector,
    "neighborhood": Neighborhood,
    "synthesizer": Synthesizer,
}
"""The base class of each part."""
LINK_CHECK_ROWS = 64
"""Number of rows after which `check_links` decides whether rows continue each other."""


class Composition:
    """A storage, a view of its rows, a selector, a neighborhood and a synthesizer.

    Raises:
        ValueError: If a part has another base class, or n-step rows are combined with a part that recomputes rewards or
            termination.
    """

    device: torch.device

    def __init__(
        self,
        storage: Storage,
        view: ReadView,
        selector: Selector,
        neighborhood: Neighborhood,
        synthesizer: Synthesizer,
    ):
        self.storage = storage
        self.selector = selector
        self.neighborhood = neighborhood
        self.synthesizer = synthesizer
        self._links_checked = False
        for name, part in self.parts.items():
            if not isinstance(part, BASES[name]):
                raise ValueError(
                    f"{name} is {part!r}; expected an object of a class derived from {BASES[name].__name__}"
                )
        self.use_view(view)

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def capacity(self) -> int:
        return self.storage.capacity

    @property
    def view(self) -> ReadView:
        """How rows are read: as single steps or as n-step transitions."""
        return self._view

    def use_view(self, view: ReadView) -> None:
        """Draw the next batches with another view; the stored rows do not change.

        Raises:
            ValueError: If n-step rows are combined with a part that recomputes rewards or termination.
        """
        if (self.synthesizer.recomputes_termination or self.synthesizer.recomputes_rewards) and view.n_step > 1:
            raise ValueError(f"n_step is {view.n_step}; expected 1, because rewards or termination are recomputed")
        self._view = view
        self._needs_links = view.n_step > 1 or any(part.follows_episodes for part in self.parts.values())
        for part in self.parts.values():
            part.use_view(view)

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
        self.storage = storage
        oldest = (storage.written - len(storage)) % storage.capacity
        slots = storage.consecutive_slots(oldest, len(storage))
        for part in self.parts.values():
            part.observe(storage, slots)

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

    def read(self, slots: Tensor) -> Transitions:
        """Return the transitions in `slots` (int64, any shape) as batches contain them, for example with n steps.

        Raises:
            IndexError: If a slot is negative or beyond the capacity.
        """
        return self.view.read(self.storage, slots)

    @property
    def parts(self) -> dict[str, Selector | Neighborhood | Synthesizer]:
        return {"selector": self.selector, "neighborhood": self.neighborhood, "synthesizer": self.synthesizer}

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
        return Storage.nbytes_of(self.capacity, columns) + parts

    def statistics(self) -> dict[str, float]:
        """Return statistics that batches do not contain; empty for a single buffer."""
        return {}

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """Mark the newest rows of running episodes as truncated, because no rows will follow.

        Args:
            episodes: Episode ids; ids of other episodes are ignored.
        """
        self.storage.truncate_episodes(episodes)

    def anneal(self, progress: float) -> None:
        """Move schedules, such as PER's β, to `progress`, the completed share of the run, from 0 to 1."""
        for part in self.parts.values():
            part.anneal(progress)

    def __repr__(self) -> str:
        """Return the class, the number of stored rows, the capacity, the view, the parts and the device."""
        view = ""
        if self.view.n_step > 1:
            view = f", n_step={self.view.n_step}"
        parts = ", ".join(type(part).__name__ for part in self.parts.values())
        return f"{type(self).__name__}({len(self):,} of {self.capacity:,} rows{view}; {parts}; {self.device})"
