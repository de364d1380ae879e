"""Mix: batches from several sources in given shares."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.catalogue import Kind, make_buffer, methods
from interreplay.buffer.sample import JoinedSample, Sample
from interreplay.experience.offline import Offline
from interreplay.experience.offline_data.dataset import Spaces
from interreplay.experience.offline_data.find import looks_like_data
from interreplay.experience.source import RowSource
from interreplay.part import Context, union
from interreplay.selection.shares import Share, SharedSources, Shares
from interreplay.storage.columns import Columns
from interreplay.transitions import Transitions, as_tensor


class Mix(SharedSources):
    """A `RowSource` that draws a share of each batch from each of several sources, such as online and offline data.

    RLPD draws half of each batch from offline data (Ball et al. 2023, arXiv:2302.02948). A `Mix` of one source draws
    the same batches as this source. New rows are added to all sources; recorded sources ignore them. The share of an
    empty source is divided among the others. TD errors are returned to the source of each row.

    Args:
        sources: Sources by name. Each is a `RowSource` or specifies a replay buffer: a name of the catalog such as
            ``"NMER"``, a class, a factory, or ``{"type": "NMER", "k": 10}``. Recorded experience is given by its path
            or ``"minari:ID"``, or as ``{"type": "Offline", "data": ..., "method": "NMER"}``.
        shares: Share of each batch by name, see `Shares`; equal shares by default.
        capacity: Capacity of each replay buffer created here that does not set its own.
        n_step: Number of steps of the returned transitions, for sources created here and `Offline` sources without one.
        gamma: Discount factor per step, for the same sources.
        seed: Seed from which each of these sources gets its own.
        device: Device of these sources.
        spaces: Observation and action space of one environment, which recorded experience must match.

    Attributes:
        sources: Sources by name, in order; `Sample.origins` are indices in this order.
        shares: The shares.

    Raises:
        ValueError: There are no sources, a source is itself a mix, or the shares do not match.
    """

    def __init__(
        self,
        sources: Mapping[str, RowSource | Kind | Mapping[str, Any]],
        shares: Mapping[str, Share] | None = None,
        *,
        capacity: int | None = None,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
        spaces: Spaces | None = None,
    ):
        if not sources:
            raise ValueError("the mix has no sources; expected at least one")
        self.recipe: dict[str, Any] = {"type": "Mix", "sources": dict(sources), "shares": shares and dict(shares)}
        given = {"capacity": capacity, "n_step": n_step, "gamma": gamma, "seed": seed, "device": device}
        for argument, value in given.items():
            if value != inspect.signature(Mix).parameters[argument].default:
                self.recipe[argument] = value
        self.shares = Shares(list(sources), shares)
        common: dict[str, Any] = {"n_step": n_step, "gamma": gamma, "device": device, "spaces": spaces}
        if capacity is not None:
            common["capacity"] = capacity
        self.sources: dict[str, RowSource] = {}
        for number, (name, source) in enumerate(sources.items()):
            self.sources[name] = make_source(name, source, common | {"seed": derive_seed(seed, number)})

    def __len__(self) -> int:
        return sum(map(len, self.sources.values()))

    @property
    def capacity(self) -> int:
        return sum(source.capacity for source in self.sources.values())

    @property
    def device(self) -> torch.device:
        return next(iter(self.sources.values())).device

    @property
    def columns_wanted(self) -> frozenset[str]:
        return union(self.sources.values(), "columns_wanted")

    @property
    def scores_wanted(self) -> frozenset[str]:
        return union(self.sources.values(), "scores_wanted")

    @property
    def brings_critic_loss(self) -> bool:
        return all(source.brings_critic_loss for source in self.sources.values())

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        for source in self.sources.values():
            source.check_offers(offers, algorithm)

    @property
    def wants_goal_functions(self) -> bool:
        return any(source.wants_goal_functions for source in self.sources.values())

    def check(self, columns: Columns) -> None:
        views = {}
        for name, source in self.sources.items():
            source.check(columns)
            buffer: Any = getattr(source, "buffer", source)  # that of recorded rows
            views[name] = getattr(getattr(buffer, "synthesizer", None), "views", 1)
        if len({*views.values()}) > 1:
            raise ValueError(f"the sources return {views} views of a row; expected equal numbers")

    def connect(self, context: Context) -> None:
        for source in self.sources.values():
            source.connect(context)

    def add(self, transitions: Transitions) -> None:
        if len(transitions):
            for source in self.sources.values():
                if isinstance(source, ReplayBuffer):  # so that either all of them store the rows or none
                    source.check_rows(transitions)
        for source in self.sources.values():
            source.add(transitions)

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        ended = list(episodes)
        for source in self.sources.values():
            source.truncate_episodes(ended)

    def sample(self, size: int) -> Sample:
        """Draw a batch of `size` rows, source by source.

        Raises:
            ValueError: `size` is not positive, or all sources are empty.
        """
        counts = self._counts(size)
        drawn = []
        for name, rows in counts.items():
            drawn.append(self.sources[name].sample(rows))
        return JoinedSample(drawn, list(map(self.shares.names.index, counts)))

    def _counts(self, size: int) -> dict[str, int]:
        """Return the number of rows of each source in the next batch of `size` rows."""
        if size < 1:
            raise ValueError(f"cannot sample {size} rows; expected at least 1")
        return self.shares.counts(size, [name for name, source in self.sources.items() if len(source)])

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        """Draw `count` batches lazily; consecutive batches with the same shares are drawn together."""
        for counts, batches in groupby(self._counts(size) for _ in range(count)):
            times = len(list(batches))
            drawn = []
            for name, rows in counts.items():
                drawn.append(self.sources[name].batches(rows, times))
            origins = list(map(self.shares.names.index, counts))
            for samples in zip(*drawn, strict=True):
                yield JoinedSample(samples, origins)

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        errors = as_tensor(td_errors).detach()
        if errors.shape != sample.slots.shape:
            raise ValueError(f"td_errors has shape {tuple(errors.shape)}; expected {tuple(sample.slots.shape)}")
        for number, source in enumerate(self.sources.values()):
            rows, where = sample.select_source(number)
            if len(rows):
                own = {}
                for name, column in (scores or {}).items():
                    own[name] = as_tensor(column)[where]
                source.update(rows, errors[where], own)

    def split_by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        for number, (name, source) in enumerate(self.sources.items()):
            rows, where = sample.select_source(number)
            if len(rows):
                for _, buffer, own_rows, errors in source.split_by_buffer(rows, td_errors[where]):
                    yield name, buffer, own_rows, errors

    def recorded_rows(self) -> Iterator[Transitions]:
        return chain.from_iterable(source.recorded_rows() for source in self.sources.values())

    def nbytes(self, columns: Columns) -> int:
        return sum(source.nbytes(columns) for source in self.sources.values())


def derive_seed(seed: int | None, number: int) -> int | None:
    """Return the seed of source `number`: the mix's seed for the first source, derived seeds for the others."""
    if seed is None or number == 0:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def make_source(name: str, source: RowSource | Kind | Mapping[str, Any], common: Mapping[str, Any]) -> RowSource:
    """Return `source` if it is a source already; otherwise create it with the common arguments that it accepts."""
    arguments = dict(source) if isinstance(source, Mapping) else {"type": source}
    if "type" not in arguments:
        raise ValueError(
            f"the source {source} has no type; expected a replay method, such as {{'type': 'NMER', 'k': 10}}"
        )
    made: Any = arguments.pop("type")
    if isinstance(made, Path) or (isinstance(made, str) and made not in methods() and looks_like_data(made)):
        arguments["data"] = str(made)
        made = Offline
    elif made == "Offline":
        made = Offline
    elif isinstance(made, Offline):
        made.use_defaults(common)
    if isinstance(made, str) or callable(made):
        made = make_buffer(made, common, **arguments)
    if isinstance(made, Mix):
        raise ValueError(f"{name!r} is a mix itself; expected its sources, with their shares")
    if not hasattr(made, "batches"):
        raise ValueError(f"{name!r} is {made!r}; expected a source, or the name of a replay method or of recorded data")
    return made
