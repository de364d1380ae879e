"""Selectors that combine other selectors: combined experience replay and mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.losses import RowwiseLoss
from interreplay.part import union
from interreplay.selection.base import Draw, Selector, SlotStore, Uniform
from interreplay.selection.shares import Share, Shares


class Composite(Selector):
    """Base of selectors that consist of others."""

    def __init__(self, inner: Mapping[str, Selector]):
        self.selectors = dict(inner)
        parts = self.selectors.values()
        self.columns_wanted = union(parts, "columns_wanted")
        self.scores_wanted = union(parts, "scores_wanted")
        self.needs = union(parts, "needs")
        self.by_write_order = any(part.by_write_order for part in parts)
        self.follows_episodes = any(part.follows_episodes for part in parts)

    def inner_parts(self) -> Mapping[str, Selector]:
        return self.selectors


class Wrapper(Composite):
    """Base of selectors around another one, which computes importance weights and processes errors."""

    def __init__(self, inner: Selector):
        super().__init__({"inner": inner})
        self.inner = inner
        self.by_write_order = True
        self.critic_loss = inner.critic_loss

    def weights(self, stored: SlotStore, probabilities: Tensor) -> Tensor:
        return self.inner.weights(stored, probabilities)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        return self.inner.errors_of(td_errors, scores)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.inner.update(slots, td_errors)


def check_selector(argument: str, inner: object) -> None:
    """Reject an object of another class, such as a replay method with the name of a selector."""
    if not isinstance(inner, Selector):
        raise ValueError(f"{argument} is {inner!r}; expected an object of a class derived from Selector")


def reject_own_draw(argument: str, inner: Selector) -> None:
    """Reject a selector with its own `draw`, whose weights and losses a selector that calls `select` ignores."""
    check_selector(argument, inner)
    if type(inner).draw is not Selector.draw:
        kind = type(inner).__name__
        raise ValueError(f"{argument} is {kind}, which composes whole batches; expected one that draws single rows")


class Combined(Wrapper):
    """Draws n − 1 rows by another selector and adds the newest row last (Zhang & Sutton 2017, arXiv:1712.01275).

    The probability of row i is its expected share of the batch, P(i) = ((n − 1)·p(i) + [i is the newest]) / n, where p
    is the probability of the other selector, which also computes the importance weights.

    Args:
        inner: `Uniform()` by default, or another selector that `knows_probabilities`, such as `Prioritized`.

    Raises:
        ValueError: If the other selector does not compute probabilities, or composes batches as a whole.
    """

    def __init__(self, inner: Selector | None = None):
        if inner is None:
            inner = Uniform()
        reject_own_draw("the inner selector", inner)
        super().__init__(inner)
        if not inner.knows_probabilities:
            kind = type(inner).__name__
            raise ValueError(f"the inner selector is {kind}; expected one that knows_probabilities, such as Uniform")

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        newest = torch.full((1,), (stored.written - 1) % stored.capacity)
        if size == 1:
            return newest, torch.ones(1)
        slots, drawn = self.inner.select(stored, size - 1, rng)
        newest_probability = self.inner.probabilities(newest, stored)
        slots = torch.cat([slots, newest])
        share = torch.cat([drawn, newest_probability]) * (size - 1) + (slots == newest)
        return slots, share / size


class MixedSelection(Composite):
    """Several selectors of the same stored rows, each with a fixed or annealed share of every batch.

    Every selector receives the error of every row, in the form that it requests, because it may keep priorities of
    rows that another selector drew. Each row has the importance weight of the selector that drew it. `probabilities`
    are Σ share·p(i), the probabilities of the mixture, if all selectors compute p(i). Otherwise they are the
    probability of the selector that drew the row, times its share.

    Args:
        selectors: Selectors by name, in order. `Sample.origins` contains their indices.
        shares: Shares of each batch by name, see `Shares`; equal by default.

    Raises:
        ValueError: If there is no selector, a selector is a mixture itself, or the shares are invalid.
    """

    def __init__(self, selectors: Mapping[str, Selector], shares: Mapping[str, Share] | None = None):
        for name, part in selectors.items():
            check_selector(f"selector {name!r}", part)
            if isinstance(part, MixedSelection):
                raise ValueError(f"selector {name!r} is a MixedSelection; expected its selectors themselves")
        super().__init__(selectors)
        self.shares = Shares(list(selectors), shares)
        self.knows_probabilities = all(part.knows_probabilities for part in self.selectors.values())

    def draw(self, stored: SlotStore, size: int, rng: np.random.Generator) -> Draw:
        counts = self.shares.counts(size, list(self.selectors))
        draws = []
        weights = []
        origins = []
        for number, (name, selector) in enumerate(self.selectors.items()):
            if name not in counts:
                continue
            draw = selector.draw(stored, counts[name], rng)
            own = draw.weights
            if own is None:
                own = selector.weights(stored, draw.probabilities)
            draws.append(draw)
            weights.append(own)
            origins.append(torch.full_like(draw.slots, number))
        slots = torch.cat([draw.slots for draw in draws])
        if self.knows_probabilities:
            probabilities = self.probabilities(slots, stored)
        else:
            probabilities = torch.cat([draw.probabilities * (len(draw.slots) / size) for draw in draws])
        joined = Draw(slots, probabilities, weights=torch.cat(weights), origins=torch.cat(origins))
        if any(draw.critic_loss is not None for draw in draws):
            losses = RowwiseLoss(tuple((len(draw.slots), draw.critic_loss) for draw in draws))
            joined = joined._replace(critic_loss=losses)
        if any(draw.actor_weights is not None for draw in draws):
            actor_weights = []
            for draw, own in zip(draws, weights, strict=True):
                actor_weights.append(torch.ones_like(own) if draw.actor_weights is None else draw.actor_weights)
            joined = joined._replace(actor_weights=torch.cat(actor_weights))
        return joined

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        total = torch.zeros(len(slots))
        for name, share in self.shares.current.items():
            if share:
                total += share * self.selectors[name].probabilities(slots, stored)
        return total

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        """Return the values that each selector requests, ``(n, selectors)``."""
        return torch.stack([part.errors_of(td_errors, scores) for part in self.selectors.values()], dim=1)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        for part, errors in zip(self.selectors.values(), td_errors.unbind(dim=1), strict=True):
            part.update(slots, errors)

    def anneal(self, progress: float) -> None:
        super().anneal(progress)
        self.shares.anneal(progress)

    def statistics(self) -> dict[str, float]:
        """Return the statistics of all selectors, prefixed with their names."""
        found: dict[str, float] = {}
        for name, part in self.selectors.items():
            found |= {f"{name}_{key}": value for key, value in part.statistics().items()}
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"selectors": super().state_dict(), "shares": self.shares.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state["selectors"])
        self.shares.load_state_dict(state["shares"])
