"""Mixes of fresh and replayed unrolls, with shares of each batch, and the experience of actor-learner algorithms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import UsageError
from interreplay.selection.shares import Share, SharedSources, Shares
from interreplay.unrolls.storage.store import as_slice
from interreplay.unrolls.unrolls import Unrolls, cat


class UnrollSource(ABC):
    """A queue of fresh unrolls, or a store from which unrolls are replayed.

    Attributes:
        name: Name in results.
        fresh: Whether each unroll is returned only once, before it was learned from.
    """

    name: str
    fresh: bool

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of stored unrolls."""

    @abstractmethod
    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        """Add new unrolls, oldest first."""

    @abstractmethod
    def can_provide(self, count: int) -> bool:
        """Return whether `count` unrolls of a batch can be drawn."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        """Return `count` unrolls."""

    def prepare(self, count: int, rng: np.random.Generator) -> None:  # noqa: B027
        """Prepare `count` unrolls for the next batch."""

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        """Return unrolls with distances to measure again, or None."""
        return None

    def update(  # noqa: B027
        self,
        unrolls: Unrolls,
        mine: slice | np.ndarray,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
    ) -> None:
        """Process the results of an update for unrolls ``(T, B, ...)``, of which `mine` belong to this source.

        See `UnrollMix.update` for `policy` and `errors`.
        """

    def anneal(self, progress: float) -> None:  # noqa: B027
        """Move schedules to `progress`, the completed share of the run, from 0 to 1."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Current memory in bytes."""

    @abstractmethod
    def estimate(self, unrolls: Unrolls) -> int:
        """Return the memory in bytes when full of unrolls like these."""

    @abstractmethod
    def statistics(self) -> dict[str, float]:
        """Return numbers that describe the current state."""

    @abstractmethod
    def state_view(self) -> dict[str, Any]:
        """Return everything needed to resume, without copying."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""


class UnrollMix(SharedSources):
    """One queue of fresh unrolls and any number of stores, each with a share of every batch.

    New unrolls are added to all sources. Batches are divided into whole unrolls, exactly over many batches. A store
    that cannot provide its share yet (too few unrolls, or fewer than its `fill_in`) contributes none, and the other
    shares grow in proportion: the first batches are entirely fresh. Results of an update are returned to the store from
    which each unroll was drawn.

    Args:
        sources: Each source with its share, or with its share at the start and at the end of the run.

    Attributes:
        sources: Sources by name, in order. `Unrolls.origins` contains their indices.
        shares: Divides the batches.
        batches: Number of batches drawn in the whole run.

    Raises:
        UsageError: If not exactly one source is a queue, it has no share, or the shares do not add up to 1.
    """

    def __init__(self, sources: Sequence[tuple[UnrollSource, Share]]):
        self.shares = make_shares([(source.name, source.fresh, share) for source, share in sources])
        self.sources: dict[str, UnrollSource] = {}
        for name, (source, _) in zip(self.shares.names, sources, strict=True):
            self.sources[name] = source
        self.batches = 0

    @property
    def queue(self) -> UnrollSource:
        """The queue of fresh unrolls."""
        return next(source for source in self.sources.values() if source.fresh)

    # -- collecting -------------------------------------------------------------------------------

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        """Add new unrolls, oldest first. The caller must not modify them afterwards.

        Raises:
            NonFiniteError: If a column contains NaN or infinity.
        """
        unrolls.check_finite()
        for source in self.sources.values():
            source.add(unrolls, rng)

    # -- batches ----------------------------------------------------------------------------------

    def check(self, batch_size: int) -> None:
        """Reject batches of `batch_size` unrolls if less than one of them is fresh, also at the end of the run.

        Raises:
            UsageError: If less than one unroll per batch is fresh.
        """
        name = self.queue.name
        share = self.shares.least(name)
        if share * batch_size < 1 - 1e-9:
            raise UsageError(
                f"a share of {share:g} for {name} is {share * batch_size:g} of {batch_size} unrolls; "
                "expected at least one"
            )

    def due(self, batch_size: int) -> dict[str, int]:
        """Return the number of unrolls from each source in the next batch, without zeros."""
        counts, _ = self.shares.divide(batch_size, self._available(batch_size))
        return counts

    def _available(self, batch_size: int) -> list[str]:
        current = self.shares.current
        available = []
        for name, source in self.sources.items():
            if source.fresh or source.can_provide(math.ceil(current[name] * batch_size - 1e-9)):
                available.append(name)
        return available

    def ready(self, batch_size: int) -> bool:
        """Return whether `batch` can draw the next batch."""
        return len(self.queue) >= self.due(batch_size).get(self.queue.name, 0)

    def batch(self, batch_size: int, rng: np.random.Generator) -> Unrolls:
        """Draw a batch if it is `ready`: the parts of all sources in order, with columns contiguous in memory."""
        counts = self.shares.counts(batch_size, self._available(batch_size))
        parts = []
        for number, (name, source) in enumerate(self.sources.items()):
            if name in counts:
                drawn = source.draw(counts[name], rng)
                parts.append(drawn.replace(origins=torch.full_like(drawn.origins, number)))
        self.batches += 1
        for name, count in self.due(batch_size).items():
            self.sources[name].prepare(count, rng)
        return cat(parts)

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        """Return unrolls with distances to measure by a forward pass and pass to `update`, or None."""
        found = []
        for number, source in enumerate(self.sources.values()):
            part = source.to_refresh(rng)
            if part is not None:
                found.append(part.replace(origins=torch.full_like(part.origins, number)))
        if not found:
            return None
        return cat(found)

    def update(self, unrolls: Unrolls, policy: Tensor | None = None, errors: Tensor | None = None) -> None:
        """Pass the results of an update to the sources of the unrolls, a batch or the result of `to_refresh`.

        Args:
            unrolls: As drawn ``(T, B, ...)``.
            policy: Outputs ``(T, B, F)`` of the current policy: logits, or [mean; log std].
            errors: Errors ``(B,)`` for `Prioritized`.
        """
        origins = unrolls.origins.numpy(force=True)
        for number, source in enumerate(self.sources.values()):
            mine = np.flatnonzero(origins == number)
            if len(mine):
                source.update(unrolls, as_slice(mine), policy=policy, errors=errors)

    # -- memory and state -------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of all unrolls and their metadata in bytes."""
        return sum(source.nbytes for source in self.sources.values())

    def estimate(self, unrolls: Unrolls) -> int:
        """Return the memory in bytes when full of unrolls like these, which are not added."""
        return sum(source.estimate(unrolls) for source in self.sources.values())

    def state_view(self) -> dict[str, Any]:
        return super().state_view() | {"batches": self.batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.batches = int(state["batches"])


class UnrollExperience:
    """Receives unrolls from actors and provides batches for a learner as soon as enough fresh unrolls are waiting.

    It has its own random generator.

    Attributes:
        env_steps: Number of env steps in the whole run, including resumed parts.
    """

    def __init__(self, mix: UnrollMix, batch_size: int, seed: int | None = None):
        self.mix = mix
        self.batch_size = batch_size
        self.env_steps = 0
        self.rng = np.random.default_rng(seed)

    def add(self, unrolls: Unrolls) -> None:
        """Add new unrolls. The caller must not modify them afterwards."""
        self.mix.add(unrolls, self.rng)
        self.env_steps += unrolls.env_steps

    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Unrolls]:
        """Draw the batches that are due. If `stop`, called before each, is True, the rest waits for the next call."""
        while not stop() and self.mix.ready(self.batch_size):
            yield self.mix.batch(self.batch_size, self.rng)

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the completed share of the run, from 0 to 1."""
        self.mix.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        """Return counters and random state; the unrolls are saved separately."""
        return {"env_steps": self.env_steps, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps = int(state["env_steps"])
        self.rng.bit_generator.state = state["rng"]


def make_shares(sources: Sequence[tuple[str, bool, Share]]) -> Shares:
    """Return the division of batches among sources, each given by its name, whether it is a queue, and its share.

    Names that repeat become ``"uniform#2"``, ``"uniform#3"`` and so on.

    Raises:
        UsageError: If not exactly one source is a queue, its share is 0, or the shares do not add up to 1.
    """
    shares: dict[str, Share] = {}
    queues = []
    for kind, fresh, share in sources:
        name = kind
        number = 1
        while name in shares:
            number += 1
            name = f"{kind}#{number}"
        shares[name] = share
        if fresh:
            queues.append(name)
    if not queues:
        raise UsageError(
            f"a mix of {', '.join(shares) or 'nothing'} has no fresh unrolls; expected a queue with a share above 0, "
            "as replay alone does not learn"
        )
    if len(queues) > 1:
        raise UsageError(f"a mix has {len(queues)} queues; expected one, as each fresh unroll is used once")
    share = shares[queues[0]]
    if not np.all(np.asarray(share) > 0):
        raise UsageError(f"the share of {queues[0]} is {share}; expected above 0, as replay alone does not learn")
    try:
        return Shares(list(shares), shares)
    except ValueError as error:
        raise UsageError(str(error)) from error
