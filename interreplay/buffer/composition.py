"""The parts of a replay buffer with the storage that they work on."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable

import torch
from torch import Tensor

from interreplay.learning.update import CRITIC_LOSS
from interreplay.neighborhood import Neighborhood
from interreplay.part import Context
from interreplay.selection import Selector
from interreplay.storage.columns import Columns, num_features
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.synthesis import Synthesizer
from interreplay.transitions import Transitions

ENOUGH = 64
"""Rows after which it can be told whether they continue each other."""


class Composition:
    """A storage, a way to read it, and a selector, a neighborhood and a synthesizer.

    Raises:
        ValueError: When rows span several steps and a part recomputes their rewards or termination.
    """

    def __init__(
        self,
        storage: Storage,
        view: ReadView,
        selector: Selector,
        neighborhood: Neighborhood,
        synthesizer: Synthesizer,
    ):
        self.storage, self.selector, self.neighborhood, self.synthesizer = storage, selector, neighborhood, synthesizer
        self.use_view(view)

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def capacity(self) -> int:
        return self.storage.capacity

    @property
    def device(self) -> torch.device:
        return self.storage.device

    @property
    def view(self) -> ReadView:
        """How rows are read."""
        return self._view

    def use_view(self, view: ReadView) -> None:
        """Draw batches by `view` from now on, as single steps or as n-step transitions; what is stored stays.

        Raises:
            ValueError: When rows span several steps and a part recomputes their rewards or termination.
        """
        if (self.synthesizer.recomputes_termination or self.synthesizer.recomputes_rewards) and view.n_step > 1:
            raise ValueError(f"n_step is {view.n_step}; expected 1 where rewards or termination are recomputed")
        self._view = view
        self._needs_links = view.n_step > 1 or any(part.follows_episodes for part in self.parts.values())
        for part in self.parts.values():
            part.use_view(view)

    def draw_from(self, storage: Storage) -> None:
        """Draw from rows that are stored already, in place of the storage, which is empty yet; parts observe them.

        Raises:
            ValueError: When a part cannot work with them, or there is no room for them in what parts keep.
        """
        if len(self) or storage.capacity != self.capacity:
            raise ValueError(f"{self!r} cannot draw from {storage.capacity:,} rows; expected an empty one of as many")
        self.check(storage.columns)
        self.storage = storage
        slots = torch.arange(len(storage), device=self.device)
        for part in self.parts.values():
            part.observe(storage, slots)

    def check_links(self) -> None:
        """Warn, once, when rows without an episode id do not continue each other, but should."""
        if not self._needs_links or self.storage.written < ENOUGH:
            return
        self._needs_links, rows, broken = False, self.storage.written, self.storage.broken_links
        if 2 * broken >= rows:
            warnings.warn(
                f"{broken} of {rows} rows do not continue the row before them, so that n-step returns, successors and "
                "hindsight see episodes of one step; give rows of several environments their ids: "
                "Transitions(..., episode=ids), one integer per row",
                stacklevel=3,
            )

    def read(self, slots: Tensor) -> Transitions:
        """Return the stored transitions in `slots`, int64 of any shape, as batches have them: of n steps, say.

        Raises:
            IndexError: When a slot is negative or beyond the capacity.
        """
        return self.view.read(self.storage, slots)

    @property
    def parts(self) -> dict[str, Selector | Neighborhood | Synthesizer]:
        return {"selector": self.selector, "neighborhood": self.neighborhood, "synthesizer": self.synthesizer}

    @property
    def columns_wanted(self) -> frozenset[str]:
        """Names of the extra columns that parts would have recorded with each row; see `Part`."""
        return frozenset[str]().union(*(part.columns_wanted for part in self.parts.values()))

    @property
    def scores_wanted(self) -> frozenset[str]:
        """Names of the scores of rows that parts would have with the TD errors of a batch; see `Part`."""
        return frozenset[str]().union(*(part.scores_wanted for part in self.parts.values()))

    @property
    def brings_critic_loss(self) -> bool:
        """Whether rows come with a loss of the critics."""
        return self.selector.critic_loss is not None or CRITIC_LOSS in self.selector.needs

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        """Refuse an algorithm that lacks what a part cannot do without.

        Args:
            offers: Names of what it has, see `interreplay.learning.update`.
            algorithm: What it is called in the message.

        Raises:
            ValueError: Naming what is lacking.
        """
        lacking = sorted(frozenset[str]().union(*(part.needs for part in self.parts.values())) - set(offers))
        if lacking:
            method, what = type(self).__name__, " and ".join(lacking)
            raise ValueError(
                f"{method} needs {what} of the algorithm; {algorithm} has none; expected our SAC, TD3 or DDPG"
            )

    @property
    def wants_goal_functions(self) -> bool:
        """Whether a part computes rewards itself, and needs the environment's functions for it."""
        return any(part.wants_goal_functions for part in self.parts.values())

    def connect(self, context: Context) -> None:
        """Offer parts what an algorithm has: its policy, the environment's goal functions, spaces and a device."""
        for part in self.parts.values():
            part.connect(context)

    def check(self, columns: Columns) -> None:
        """Refuse rows that a part cannot work with.

        Raises:
            ValueError: Naming the column and its dtype.
        """
        for part in self.parts.values():
            part.check(columns)

    def nbytes(self, columns: Columns) -> int:
        """Return bytes that the full buffer will take for rows of these columns, one long episode assumed."""
        return Storage.nbytes_of(self.capacity, columns) + sum(
            part.nbytes(self.capacity, num_features(columns)) for part in self.parts.values()
        )

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe the buffer beside its batches: none, those of its parts are the batches'."""
        return {}

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """End running episodes that nothing will continue: their newest rows become truncated.

        Args:
            episodes: Ids; those that are not running are passed over.
        """
        self.storage.truncate_episodes(episodes)

    def anneal(self, progress: float) -> None:
        """Move schedules, such as PER's β, to `progress`: the share of the run that is done, 0 to 1."""
        for part in self.parts.values():
            part.anneal(progress)

    def __repr__(self) -> str:
        """Return the class, how many rows are stored of how many, how they are read, and the parts."""
        view = "" if self.view.n_step == 1 else f", n_step={self.view.n_step}"
        parts = ", ".join(type(part).__name__ for part in self.parts.values())
        return f"{type(self).__name__}({len(self):,} of {self.capacity:,} rows{view}; {parts}; {self.device})"
