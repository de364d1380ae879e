"""A mix: every batch of fresh unrolls and of replayed ones, by shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import UsageError
from interreplay.selection.shared_sources import SharedSources
from interreplay.selection.shares import Share, Shares
from interreplay.unrolls.checks import check_finite, check_queue
from interreplay.unrolls.source import UnrollSource
from interreplay.unrolls.unrolls import Unrolls, cat


class UnrollMix(SharedSources[UnrollSource]):
    """One queue of fresh unrolls and any number of stores, each with a share of every batch.

    New unrolls go to all of them. Batches are divided into whole unrolls, exactly over many batches. A store that can
    not give its part yet, because fewer unrolls lie in it than its part of the batch or than its `fill_in`, leaves its
    share to the others in proportion: the first batches are fresh ones alone. What an update found out goes back to the
    store that an unroll came from.

    Args:
        sources: Each with its share, or with its share at the start and at the end of the run.

    Attributes:
        sources: By name, in order; `Unrolls.origins` are numbers in this order.
        shares: How batches are divided.
        batches: Batches drawn in the whole run.

    Raises:
        UsageError: When no queue has a share, there are several, or shares do not add up to 1.
    """

    def __init__(self, sources: Sequence[tuple[UnrollSource, Share]]):
        self.sources = {}
        for source, _ in sources:
            alike = sum(name.partition("#")[0] == source.name for name in self.sources)
            self.sources[source.name if not alike else f"{source.name}#{alike + 1}"] = source
        given = dict(zip(self.sources, (share for _, share in sources), strict=True))
        check_queue(self.sources, given)
        try:
            self.shares = Shares(list(self.sources), given)
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.batches = 0
        self._due: tuple[int, dict[str, int]] | None = None

    @property
    def queue(self) -> UnrollSource:
        """The queue of fresh unrolls."""
        return next(source for source in self.sources.values() if source.fresh)

    # -- collecting -------------------------------------------------------------------------------

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        """Take new unrolls, oldest first, which nobody writes to any more.

        Raises:
            NonFiniteError: When a column holds NaN or infinity.
        """
        check_finite(unrolls)
        for source in self.sources.values():
            source.add(unrolls, rng)

    def full(self, batch_size: int) -> bool:
        """Return whether runners are to wait: the queue is full, and holds what the next batch needs."""
        return self.queue.full and self.ready(batch_size)

    # -- batches ----------------------------------------------------------------------------------

    def check(self, batch_size: int, whole: bool = False) -> None:
        """Refuse a size of batches that the shares do not divide well.

        Args:
            batch_size: Unrolls.
            whole: Whether every share has to be a whole number of unrolls.

        Raises:
            UsageError: When it is not, or not even one unroll of each batch would be fresh.
        """
        for name, share in self.shares.current.items():
            rows = share * batch_size
            if whole and abs(rows - round(rows)) > 1e-6:
                raise UsageError(
                    f"a share of {share:g} for {name} is {rows:g} of {batch_size} unrolls; expected a whole number"
                )
            if self.sources[name].fresh and rows < 1 - 1e-9:
                raise UsageError(
                    f"a share of {share:g} for {name} is {rows:g} of {batch_size} unrolls; expected at least one"
                )

    def due(self, batch_size: int) -> dict[str, int]:
        """Return how many unrolls of the next batch come from each source; those that give none left out."""
        before = self.shares.state_dict()
        counts = self._divided(batch_size)
        self.shares.load_state_dict(before)
        return counts

    def _divided(self, batch_size: int) -> dict[str, int]:
        most = {name: math.ceil(share * batch_size - 1e-9) for name, share in self.shares.current.items()}
        ready = [name for name, source in self.sources.items() if source.fresh or source.can_give(most[name])]
        return self.shares.counts(batch_size, ready)

    def fresh_due(self, batch_size: int) -> int:
        """Return how many fresh unrolls the next batch needs."""
        return self._fresh(self.due(batch_size))

    def _fresh(self, counts: dict[str, int]) -> int:
        return sum(count for name, count in counts.items() if self.sources[name].fresh)

    def ready(self, batch_size: int) -> bool:
        """Return whether `batch` has what it needs."""
        waiting = len(self.queue)
        return waiting >= batch_size or waiting >= self.fresh_due(batch_size)

    def batch(self, batch_size: int, rng: np.random.Generator) -> Unrolls:
        """Draw a batch: of each source its part, in their order, columns contiguous in memory.

        Raises:
            ValueError: When fewer fresh unrolls wait than are due.
        """
        before = self.shares.state_dict()
        counts, parts = self._divided(batch_size), []
        if len(self.queue) < self._fresh(counts):
            self.shares.load_state_dict(before)
            raise ValueError(f"{self._fresh(counts)} fresh unrolls are due and {len(self.queue)} wait")
        for number, (name, source) in enumerate(self.sources.items()):
            if name in counts:
                drawn = source.draw(counts[name], rng)
                parts.append(drawn.replace(origins=torch.full_like(drawn.origins, number)))
        self.batches += 1
        return cat(parts)

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        """Return unrolls whose distance is to be measured again, by `update` after a forward pass, or None."""
        found = []
        for number, source in enumerate(self.sources.values()):
            part = source.to_refresh(rng)
            if part is not None:
                found.append(part.replace(origins=torch.full_like(part.origins, number)))
        return cat(found) if found else None

    def update(
        self,
        unrolls: Unrolls,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
        distances: Tensor | None = None,
    ) -> None:
        """Hand on what an update found out of unrolls that came from here, a batch or some of `to_refresh`.

        Args:
            unrolls: As they were drawn ``(T, B, ...)``.
            policy: What the policy of now gives for them ``(T, B, F)``: logits, or [mean; log std].
            errors: How wrong it was about each ``(B,)``, for `Prioritized`.
            distances: From the policy ``(B,)``, in place of what `policy` tells.

        Raises:
            ValueError: When one is of another length.
        """
        for name, given in (("errors", errors), ("distances", distances)):
            if given is not None and given.shape != unrolls.slots.shape:
                raise ValueError(f"{name} has shape {tuple(given.shape)}; expected {tuple(unrolls.slots.shape)}")
        origins = unrolls.origins.cpu()
        for number, source in enumerate(self.sources.values()):
            mine = _which(origins == number)
            if mine is not None:
                source.update(unrolls, mine, policy, errors, distances)

    # -- the rest ---------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of all unrolls that lie here, and of what is known of them."""
        return sum(source.nbytes for source in self.sources.values())

    def estimate(self, unrolls: Unrolls) -> int:
        """Return the bytes that it will take when it is full of unrolls like these, which are not added."""
        return sum(source.estimate(unrolls) for source in self.sources.values())

    def state_view(self) -> dict[str, Any]:
        return super().state_view() | {"batches": self.batches}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.batches = int(state["batches"])


def _which(mask: Tensor) -> slice | Tensor | None:
    """Return which are true, as a slice where they lie side by side; None where none is."""
    found = mask.nonzero().squeeze(1)
    if not len(found):
        return None
    first, last = int(found[0]), int(found[-1])
    return slice(first, last + 1) if last - first == len(found) - 1 else found
